// Measurements by benchmark: the repetitions in all files, medians over them, and the rank to name. The functions are
// pure.
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

/// Throws InputError for the first file with an injected fault, unless faults are `allowed`.
void refuse_faults(const std::vector<Results>&, bool allowed);
/// The name of the text by rank that says that an operation used slower software than usual.
inline constexpr std::string_view fallback_fact = "fallback";

/// Throws InputError if a file is from a virtual GPU. `use` names what does not accept such files: "a baseline".
void refuse_virtual(const std::vector<Results>&, const std::string& use);

/// All repetitions of one benchmark. Benchmark has pointers into Results, which must outlive it.
struct Benchmark {
  Key key;
  const Context* context = nullptr;
  std::vector<const Row*> rows;

  const Row* error() const;   // returns the first repetition that failed
  const Row* waiver() const;  // returns the first repetition if all were waived
};

/// The number of repetitions whose median is reliable.
inline constexpr std::size_t enough_repetitions = 3;

/// Returns the coefficient of variation of the times of a benchmark: of the samples of the middle repetition, or of the
/// repetitions' own times if there are enough and these differ less. A time is the median of its samples, so it
/// repeats even if some samples were stalled. nullopt if a repetition has no `cv`.
std::optional<double> scatter_of(const Benchmark&);

using Benchmarks = std::map<Key, Benchmark, std::less<>>;

/// Returns the benchmarks of these files. Omits rows whose world size differs from that of the first row with the same
/// key; machine/ranks then fails.
Benchmarks benchmarks_of(std::span<const Results>);

/// True if the family has a benchmark that was not waived.
bool has_values_of(const Benchmarks&, const std::string& family);

/// The files of a run and their index, which all stages of the judgement share.
class Measured {
 public:
  Measured(std::vector<Results> results) : files(std::move(results)), benchmarks(benchmarks_of(files)) {}
  Measured(std::initializer_list<Results> results) : Measured(std::vector<Results>(results)) {}
  Measured(const Measured&) = delete;  // not copied, because the index points into the files
  Measured& operator=(const Measured&) = delete;

  const std::vector<Results> files;
  const Benchmarks benchmarks;
};

/// Returns the value of the run as the median over repetitions; nullopt if a repetition has no value. If each host runs
/// the operation by itself, it is the value of the slowest host, whose own repetitions are combined first: otherwise
/// one pause on one host and one on another, in different repetitions, would count as a slow run.
std::optional<double> run_value(const Benchmark&, const std::string& metric);

/// Returns, for every rank, its median over repetitions; empty if no repetition has values by rank.
RankValues rank_values(const Benchmark&, const std::string& metric);

/// Returns the best value of a rank in any repetition; nullopt if the rank has none.
std::optional<double> best_value(const Benchmark&, const std::string& metric, std::size_t rank);

/// Returns the texts by rank of the last repetition; empty if it has none with this name.
std::vector<std::optional<std::string>> rank_texts(const Benchmark&, const std::string& metric);

/// Returns the largest single value of the metric in any repetition, of the run or of a rank. A median would hide it.
std::optional<double> largest_value(const Benchmark&, const std::string& metric);

/// Returns the rank for which the others of a collective wait. The time of this rank must be the shortest, by more than
/// 5 % of that of others, and it must have arrived later by at least half of their waiting time. The shortest time
/// alone is no proof, because all hosts have it except one with a slow network. nullopt if there is no such rank.
std::optional<int> last_to_arrive(const RankValues& seconds, const RankValues& arrival_us);

/// Returns the suspicious rank: for local work the slowest, for a collective the last to arrive. nullopt if there is no
/// outlier.
std::optional<int> slowest_rank(const Benchmark&);

/// Returns the metric that is shown and compared if no rule names one; empty if the row has no known metric.
std::string headline_metric(const Benchmark&);

}  // namespace shakedown
