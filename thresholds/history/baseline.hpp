// A stored baseline: the values of healthy machines of one kind, launch by launch. Made from result files, merged,
// read, written (baseline.json), and converted to proposed floors. Pure except for reading files.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "thresholds/history/machine_facts.hpp"
#include "thresholds/results/results.hpp"
#include "thresholds/rules/profile.hpp"

namespace shakedown {

inline constexpr int baseline_schema = 2;

/// The figures of one metric. A launch is one start of a program. Placement, clocks and chosen algorithms vary between
/// launches, not between repetitions.
struct Series {
  std::map<std::string, std::vector<double>> launches;  // name of the launch -> value of the run, by repetition
  std::map<std::string, std::vector<double>> ranks;     // -> median over repetitions of each rank

  /// Returns the independent values: the median of each launch over its repetitions; for a single launch its
  /// repetitions.
  std::vector<double> units(bool by_launch) const;
};

struct BaselineBenchmark {
  std::string headline;                  // the metric to compare
  std::map<std::string, Series> series;  // by metric: all metrics whose name ends in a unit
};

struct LaunchFacts {
  std::string started;  // UTC, ISO 8601; the earliest of its files
  std::set<std::string> hosts;
  std::set<std::string> gpus = {};  // UUIDs; unknown in baselines from before 2026-11-22
};

/// Launches on the same machine are one session if each begins at most this long after the previous one. They share
/// day, room and state of the machine, so together they are one sample of these.
inline constexpr double hours_of_session = 3;

/// A value that `leave_out_outliers` removed.
struct LeftOut {
  std::string key, metric, launch;
  double value = 0, centre = 0;
};

struct Baseline {
  MachineFacts facts;
  int ranks = 0, hosts = 0;
  std::map<std::string, LaunchFacts> launches;
  std::map<std::string, BaselineBenchmark> benchmarks;  // without failed and waived rows
  std::vector<LeftOut> left_out;
};

/// Makes a baseline. Errors: InputError if a launch measured a benchmark twice, that is, one file was given under two
/// names.
Baseline baseline_of(const std::vector<Results>&);

/// Makes one baseline for each kind of machine (device, backend, ranks, hosts) in the files. Errors: as above;
/// InputError for a field that differs within a kind, with both values, for no files, for a file of an unfinished run,
/// and for one with an injected fault.
std::vector<Baseline> baselines_of(const std::vector<Results>&);

/// Merges baselines. Errors: InputError if the machine facts differ, or a launch has different figures in two of them.
Baseline merge(const std::vector<Baseline>&);

/// Returns a line for each launch that is a copy of another launch of either side: all common figures are equal.
std::vector<std::string> notes_on_copies(const Baseline& now, const Baseline& before);

/// Removes headline values far from the median of at least `launches_to_judge` launches: by more than
/// bonferroni_z(number of values) robust standard deviations and more than `least_outlier` of the median. Notes each.
/// Keeps a latency, or a value off by less than `launches_differ`, if another launch of the same hosts and GPUs does
/// not have this outlier.
void leave_out_outliers(Baseline&);
inline constexpr std::size_t launches_to_judge = 5;
inline constexpr double least_outlier = 0.03, launches_differ = 0.2;

void erase_launch(Baseline&, const std::string& name);

/// Keeps the `first` and the `last` launches by time, and drops those between.
void keep_launches(Baseline&, std::size_t first, std::size_t last);

/// Returns strict JSON: a line for each benchmark and metric, with values, centre and spread.
std::string baseline_json(const Baseline&);

/// Reads baseline.json files, or result files as a baseline of their launches. A folder stands for its baseline.json,
/// else for its result files. Errors: InputError with the file for another schema, no benchmarks, or an injected fault
/// without permission.
Baseline read_baseline(const std::vector<std::filesystem::path>& files_or_folders, bool allow_faults = false);

/// Writes baseline.json. Errors: InputError if the existing file is not a baseline of this schema; it is kept.
void store_baseline(const std::filesystem::path& file, const Baseline&);

/// Returns "h200-sxm/4ranks" or "nvidia-b200/16ranks-2hosts": profile or device, and number of ranks.
std::filesystem::path baseline_folder(const Baseline&, const std::vector<Profile>&);

/// Returns "node7 (run 324aa8ddf3ba2d00)".
std::string launch_text(const Baseline&, const std::string& launch);

struct FloorOptions {
  double quantile = 0.01;  // of the observed values, on the bad side
  double margin = 0.03;    // margin below it
};

/// Returns a profile named `name` as YAML for the strict loader: a floor for the headline of each benchmark (an upper
/// limit for times) at `quantile` less `margin`, with the peaks of `reference` if given. Local work has values by rank.
/// Errors: InputError if there is nothing to propose, or for invalid options.
std::string floors_yaml(const Baseline&, const std::string& name, const Profile* reference, const FloorOptions&);

}  // namespace shakedown
