// A stored baseline: the values of healthy machines of one kind, by launch. A baseline is made from result files,
// merged, read, written (baseline.json), and converted to proposed floors. The functions are pure, except for reading
// files.
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

/// The figures of one metric. A launch is one start of a program. Placement, clocks and chosen algorithms differ
/// between launches, but not between repetitions.
struct Series {
  std::map<std::string, std::vector<double>> launches;  // by name of the launch: the values of the run, by repetition
  /// By name of the launch: for each rank, the median over repetitions.
  std::map<std::string, std::vector<double>> ranks;

  /// Returns the independent values: for each launch, the median over its repetitions. If there is only one launch,
  /// returns its repetitions.
  std::vector<double> units(bool by_launch) const;
};

struct BaselineBenchmark {
  std::string headline;                  // the metric that is compared
  std::map<std::string, Series> series;  // by metric: all metrics whose name ends in a unit
};

struct LaunchFacts {
  std::string started;  // start of the earliest file: UTC, ISO 8601
  std::set<std::string> hosts;
  std::set<std::string> gpus = {};  // UUIDs; empty in baselines from before 2026-11-22, which do not have them
};

/// Launches on the same machine belong to one session if each begins at most this long after the previous launch.
/// Launches of a session have the same day, room and state of the machine, so together they are a single sample of
/// these conditions.
inline constexpr double hours_of_session = 3;

/// A value that `leave_out_outliers` has removed.
struct LeftOut {
  std::string key, metric, launch;
  double value = 0, centre = 0;
};

struct Baseline {
  MachineFacts facts;
  int ranks = 0, hosts = 0;
  std::map<std::string, LaunchFacts> launches;
  std::map<std::string, BaselineBenchmark> benchmarks;  // does not contain failed and waived rows
  std::vector<LeftOut> left_out;
};

/// Makes a baseline. Errors: InputError if a launch measured a benchmark twice, which means that one file was given
/// under two names.
Baseline baseline_of(const std::vector<Results>&);

/// Makes one baseline for each kind of machine (device, backend, ranks, hosts) in the files. Errors: those of
/// baseline_of; InputError for a field that differs within a kind, with both values; for no files; for a file of a run
/// that has not ended; and for one with an injected fault.
std::vector<Baseline> baselines_of(const std::vector<Results>&);

/// Merges baselines. Errors: InputError if the machine facts differ, or if a launch has different figures in two of
/// them.
Baseline merge(const std::vector<Baseline>&);

/// Returns a line for each launch that is a copy of another launch on either side: all figures that both have are
/// equal.
std::vector<std::string> notes_on_copies(const Baseline& now, const Baseline& before);

/// Removes headline values that are far from the median of at least `launches_to_judge` launches: by more than
/// bonferroni_z(number of values) robust standard deviations, and by more than `min_outlier_share` of the median. Adds
/// a note for each. Keeps a latency, or a value that differs by less than `max_difference_of_launches`, if another
/// launch of the same hosts and GPUs is not an outlier.
void leave_out_outliers(Baseline&);
inline constexpr std::size_t launches_to_judge = 5;
inline constexpr double min_outlier_share = 0.03, max_difference_of_launches = 0.2;

void erase_launch(Baseline&, const std::string& name);

/// Keeps the `first` and the `last` launches by time, and drops the launches between them.
void keep_launches(Baseline&, std::size_t first, std::size_t last);

/// Returns strict JSON. Each benchmark and metric has a line with its values, centre and spread.
std::string baseline_json(const Baseline&);

/// Reads baseline.json files, or result files as a baseline of their launches. For a folder, reads its baseline.json,
/// or its result files if it has none. Errors: InputError with the file for another schema, for no benchmarks, or for
/// an injected fault without permission.
Baseline read_baseline(const std::vector<std::filesystem::path>& files_or_folders, bool allow_faults = false);

/// Writes baseline.json. If the existing file is not a baseline of this schema, keeps it and throws InputError.
void store_baseline(const std::filesystem::path& file, const Baseline&);

/// Returns the folder of a baseline: profile or device, and number of ranks, such as "h200-sxm/4ranks" or
/// "nvidia-b200/16ranks-2hosts".
std::filesystem::path baseline_folder(const Baseline&, const std::vector<Profile>&);

/// Returns "node7 (run 324aa8ddf3ba2d00)".
std::string launch_text(const Baseline&, const std::string& launch);

struct FloorOptions {
  double quantile = 0.01;  // quantile of the observed values, counted from the bad side
  double margin = 0.03;    // margin below that quantile
};

/// Returns a profile named `name`, as YAML that the strict loader accepts. The profile has a limit for the headline
/// figure of each benchmark: for a rate, the floor at `quantile` minus `margin`; for a time, an upper limit. If
/// `reference` is given, its peaks are used. Local work has values by rank. Errors: InputError if there is nothing to
/// propose, or for invalid options.
std::string floors_yaml(const Baseline&, const std::string& name, const Profile* reference, const FloorOptions&);

}  // namespace shakedown
