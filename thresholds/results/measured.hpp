// Measurements by benchmark: the repetitions of all files put together, medians over them, and the rank to name.
// Used by the judge, the explanation and the comparison with a baseline. Pure.
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

/// Errors: InputError for the first file that was measured with an injected fault, unless that is `allowed`.
void refuse_faults(const std::vector<Results>&, bool allowed);

/// All repetitions of one benchmark. Points into Results, which must outlive it.
struct Benchmark {
  Key key;
  const Context* context = nullptr;
  std::vector<const Row*> rows;

  const Row* error() const;   // first repetition that failed
  const Row* waiver() const;  // first repetition, if all were waived
};

using Benchmarks = std::map<Key, Benchmark, std::less<>>;

/// Rows of a key whose world size differs from that of its first row are left out: machine/ranks fails then.
Benchmarks benchmarks_of(std::span<const Results>);

/// Whether anything of a family was tried: all of it may have been waived, or it may have no row at all.
bool has_values_of(const Benchmarks&, const std::string& family);

/// The files of a run and their index, made once for all stages of the judgement.
class Measured {
 public:
  Measured(std::vector<Results> results) : files(std::move(results)), benchmarks(benchmarks_of(files)) {}
  Measured(std::initializer_list<Results> results) : Measured(std::vector<Results>(results)) {}
  Measured(const Measured&) = delete;  // the index points into the files
  Measured& operator=(const Measured&) = delete;

  const std::vector<Results> files;
  const Benchmarks benchmarks;
};

/// Median over repetitions of the value of the run; nullopt if a repetition has none.
std::optional<double> run_value(const Benchmark&, const std::string& metric);

/// For every rank its median over repetitions; empty if no repetition has values by rank for that metric.
std::vector<std::optional<double>> rank_values(const Benchmark&, const std::string& metric);

/// Texts by rank of the last repetition; empty if it has none under that name.
std::vector<std::optional<std::string>> rank_texts(const Benchmark&, const std::string& metric);

/// Every single value of the metric, of the run and of each rank, in any repetition: the largest. Also sees what a
/// median hides.
std::optional<double> largest_value(const Benchmark&, const std::string& metric);

/// The rank that the others of a collective wait for: it has the shortest time of its own, by more than 5 % of theirs,
/// and came later than they by at least half of what they wait in one operation. A shortest time alone says nothing:
/// where one host has a slow network, all others have it in turn. nullopt if there is none.
std::optional<int> last_to_arrive(const std::vector<std::optional<double>>& seconds,
                                  const std::vector<std::optional<double>>& arrival_us);

/// The rank to look at: of a local benchmark the one with the longest time, of a collective the last to arrive.
/// nullopt if no rank stands out.
std::optional<int> slowest_rank(const Benchmark&);

/// The metric to show and compare where no rule names one; empty if the row has no known metric.
std::string headline_metric(const Benchmark&);

}  // namespace shakedown
