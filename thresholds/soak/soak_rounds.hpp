// The rounds of a soak: what is kept of each, and their file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "thresholds/judge/verdict.hpp"
#include "thresholds/results/measured.hpp"

namespace shakedown {

/// What was asked for.
struct SoakPlan {
  std::string run_id, started;  // UTC, ISO 8601
  double duration_s = 0;
  std::uint64_t seed = 0;  // of the order of the families and of the rests
  std::vector<std::string> families;
  std::string tier;
  std::vector<std::string> flags = {};  // all others that it was started with: who goes on judges by the same
};

/// Of a round what is not good.
struct RoundFinding {
  std::string key, metric;  // "suspect": what the figures put together say is at fault
  Status status = Status::fail;
  bool figure = false;              // a value that misses a limit or its peers; else a fact, an error or wrong data
  std::vector<std::string> places;  // units or hosts that it names
  std::string detail;
};

/// A round thinned to what the series needs, some 10 kB for eight GPUs: a week of them fits where its files would not.
struct SoakRound {
  int number = 1;
  std::string started;             // UTC
  double begin_s = 0;              // since the start of the soak, by the time of day
  double length_s = 0;             // by a clock that nobody sets
  double unwatched_s = 0;          // directly before it, when nobody watched: after a kill or a reboot
  double rest_s = 0;               // directly before it, on purpose
  std::vector<std::string> order;  // of its families
  std::vector<std::string> boots;  // "host boot-id"
  std::vector<RankFacts> ranks;    // empty: as in the round before
  std::vector<std::string> units;  // by rank, what is the same after a reboot: a GPU's UUID, else host/number
  State state = State::incomplete;
  std::string profile, backend;
  int hosts = 0;
  std::size_t families = 0, judged_families = 0, known_families = 0;
  ByRank figures;   // by "key metric", the headline of each benchmark; one that all share has one value
  ByRank bits;      // checksums by "key algorithm": equal input and algorithm must give equal ones
  ByRank counters;  // of errors, as pre-flight read them
  std::vector<std::optional<std::string>> others;  // by rank: processes of others on its GPU
  std::vector<RoundFinding> findings;              // at most max_findings
  std::size_t finding_count = 0;

  static constexpr std::size_t max_findings = 40;

  /// Nothing: this unit was not there.
  std::optional<std::size_t> rank_of(const std::string& unit) const;
  /// Of `figures`, `bits` or `counters`, if this unit has it.
  std::optional<double> value(const ByRank SoakRound::*columns, const std::string& name, const std::string& unit) const;
  /// One that all ranks share.
  std::optional<double> shared_figure(const std::string& name) const;
};

struct Soak {
  SoakPlan plan;
  std::vector<SoakRound> rounds;

  double watched_s() const;  // rounds and rests
  bool complete() const { return watched_s() >= plan.duration_s; }
  /// What "the first hour" is: an hour, of a short soak a quarter.
  double hour_s() const;
  /// "hour 7.0 (2026-11-22T19:00:05Z)"; of a soak of less than two hours in minutes.
  std::string when(const SoakRound&) const;
  /// Of the columns of all rounds.
  std::set<std::string> names(const ByRank SoakRound::*columns) const;
};

/// The file of a soak in its folder has the plan and each round as a line of JSON.
std::string soak_line(const SoakPlan&);
std::string soak_line(const SoakRound&);
/// What a kill has left of a last line is no round. Errors: InputError naming file and line.
Soak read_soak(const std::filesystem::path& folder);

/// Fills in what a run has shown.
void summarize(const Measured&, const Verdict&, SoakRound&);

/// "7.0": rounded to a tenth.
std::string number_with_one_digit(double);

}  // namespace shakedown
