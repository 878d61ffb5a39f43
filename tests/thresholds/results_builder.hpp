// Builds result files for tests: Google Benchmark's JSON as 1.7.1 writes it, for any number of ranks and hosts.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/results/results.hpp"
#include "thresholds/rules/profile.hpp"

namespace shakedown::testing_support {

using Values = RankValues;

/// A folder that is removed at the end of the test.
class Folder {
 public:
  Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, const std::string& text) const;

 private:
  std::filesystem::path path_;
};

const std::vector<Profile>& shipped_profiles();

/// Returns a stored run of two H200s in which the last rank with this fact of pre-flight has another value.
std::vector<Results> stored_run_with(const std::string& key, const std::string& fact, double value);

/// Four healthy H200 on one host, unless changed.
class ResultsBuilder {
 public:
  explicit ResultsBuilder(int ranks = 4, int hosts = 1, const std::string& device = "NVIDIA H200");
  ResultsBuilder(const ResultsBuilder&);
  ResultsBuilder(ResultsBuilder&&) noexcept;
  ResultsBuilder& operator=(const ResultsBuilder&);
  ResultsBuilder& operator=(ResultsBuilder&&) noexcept;
  ~ResultsBuilder();

  static ResultsBuilder host(int ranks = 2, int hosts = 1);

  /// Adds one repetition: the value of the run, and the values by rank (default: the same on every rank). Its times
  /// follow from the figure; for a large message from its bandwidth.
  ResultsBuilder& add(const std::string& key, const std::string& metric, double value, Values by_rank = {},
                      const std::map<std::string, double>& more = {});

  /// Repeats the row added last until it has `times` repetitions with the same values.
  ResultsBuilder& repeated(int times = 3);

  /// Sets the time of each rank for the repetition added last, and the rates that follow.
  ResultsBuilder& seconds(const Values& values);

  /// Sets more values by rank for the repetition added last.
  ResultsBuilder& by_rank(const std::string& name, Values values);

  /// Sets texts of the ranks for the repetition added last.
  RankData& last();

  /// Sets throttle reasons and errors of one rank for the repetition added last; other ranks have none.
  ResultsBuilder& throttle(std::size_t rank, const Throttle& reasons);
  ResultsBuilder& errors(std::size_t rank, const ErrorCounts& errors, int rows_of_reading = 1);

  /// Adds one reading of facts, as pre-flight does.
  ResultsBuilder& add_facts(const std::string& key, const ByRank& numbers, const TextByRank& texts);

  ResultsBuilder& add_error(const std::string& key, const std::string& message,
                            const std::vector<int>& wrong_ranks = {}, const ByRank& numbers = {});
  ResultsBuilder& add_waiver(const std::string& key, const std::string& reason, Lack = Lack::machine);

  std::string text() const;

  /// Returns the results as the reader returns them.
  Results results(const std::string& name = "results.json") const;

  Context context;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();

 private:
  int repetition_of(const std::string& key) const;
  std::optional<double> seconds_of(const std::string& key, const std::string& metric, double value) const;

  std::map<std::string, std::vector<RankData>> data_;
};

/// Returns a profile for H200 with the given rules, loaded like a user's.
std::vector<Profile> profile(const std::string& rules, const std::string& more = "");

}  // namespace shakedown::testing_support
