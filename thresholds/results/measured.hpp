// Measurements by benchmark: the repetitions of all files, medians over them, and the rank to name. Pure.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "thresholds/results/results.hpp"

namespace shakedown {

/// Throws InputError for the first file with an injected fault, unless that is `allowed`.
void refuse_faults(const std::vector<Results>&, bool allowed);
/// The text by rank of the fallback that an operation used, as slower software than the usual one.
inline constexpr std::string_view fallback_fact = "fallback";

/// Errors: InputError if a file is of a virtual GPU, which `use` does not take: "a baseline".
void refuse_virtual(const std::vector<Results>&, const std::string& use);

/// All repetitions of one benchmark. Points into Results, which must outlive it.
struct Benchmark {
  Key key;
  const Context* context = nullptr;
  std::vector<const Row*> rows;

  const Row* error() const;   // first repetition that failed
  const Row* waiver() const;  // first repetition, if all were waived
};

using Benchmarks = std::map<Key, Benchmark, std::less<>>;

/// Leaves out rows of a key with another world size than its first row; machine/ranks then fails.
Benchmarks benchmarks_of(std::span<const Results>);

/// True if a benchmark of the family was not waived.
bool has_values_of(const Benchmarks&, const std::string& family);

/// The files of a run and their index, shared by all stages of the judgement.
class Measured {
 public:
  Measured(std::vector<Results> results) : files(std::move(results)), benchmarks(benchmarks_of(files)) {}
  Measured(std::initializer_list<Results> results) : Measured(std::vector<Results>(results)) {}
  Measured(const Measured&) = delete;  // points into the files
  Measured& operator=(const Measured&) = delete;

  const std::vector<Results> files;
  const Benchmarks benchmarks;
};

/// Returns the median over repetitions of the value of the run; nullopt if a repetition has none.
std::optional<double> run_value(const Benchmark&, const std::string& metric);

/// Returns for every rank its median over repetitions; empty if no repetition has values by rank.
RankValues rank_values(const Benchmark&, const std::string& metric);

/// Returns the texts by rank of the last repetition; empty if it has none under that name.
std::vector<std::optional<std::string>> rank_texts(const Benchmark&, const std::string& metric);

/// Returns the largest single value of the metric, of the run or of a rank, in any repetition, which a median hides.
std::optional<double> largest_value(const Benchmark&, const std::string& metric);

/// Returns the rank that the others of a collective wait for. Its own time is the shortest, by more than 5 % of theirs,
/// and it arrived later by at least half of their waiting time. The shortest time alone is no proof: all hosts except
/// one with a slow network have it. nullopt if there is none.
std::optional<int> last_to_arrive(const RankValues& seconds, const RankValues& arrival_us);

/// Returns the suspicious rank: of local work the slowest, of a collective the last to arrive. nullopt if there is no
/// outlier.
std::optional<int> slowest_rank(const Benchmark&);

/// Returns the metric to show and compare if no rule names one; empty if the row has no known metric.
std::string headline_metric(const Benchmark&);

}  // namespace shakedown
