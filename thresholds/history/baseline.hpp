// A stored baseline: what healthy machines of one kind gave, launch by launch. Made from result files, merged, read,
// written (baseline.json), and turned into a proposal of floors. Pure but for reading the files.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "thresholds/results/results.hpp"
#include "thresholds/rules/profile.hpp"

namespace shakedown {

inline constexpr int baseline_schema = 2;

/// Facts that must agree for figures to be compared: device, backend, tier, ranks, hosts, driver, cuda, cublaslt, nccl,
/// nvls, build_type, power_limit_w, vbios, plan, version, and every tuning variable, each with all values that the
/// files of a set have. Unknown: empty.
using MachineFacts = std::map<std::string, std::set<std::string>>;

/// The fields that every MachineFacts has; all others are tuning variables, which are "unset" where they are absent.
bool is_tuning(const std::string& field);

/// True of fields that older baselines lack: power_limit_w, vbios, plan, version.
bool is_younger_fact(const std::string& field);

/// Which fields differ, as "driver is 580.159, the baseline has 570.1", with `of` in place of "the baseline"; empty:
/// comparable. A younger fact is compared only if both sides know it.
std::vector<std::string> differences(const MachineFacts& current, const MachineFacts& other,
                                     const std::string& of = "the baseline");

/// The figures of one metric. A launch is one start of a program: what varies from launch to launch (placement, clocks,
/// the algorithm that was chosen) is the same for all of its repetitions.
struct Series {
  std::map<std::string, std::vector<double>> launches;  // name of the launch -> value of the run, by repetition
  std::map<std::string, std::vector<double>> ranks;     // -> each rank's own median over repetitions

  /// The independent values: each launch's median over its repetitions; of a single launch its repetitions.
  std::vector<double> units(bool by_launch) const;
};

struct BaselineBenchmark {
  std::string headline;                  // the metric to compare
  std::map<std::string, Series> series;  // by metric: every metric whose name ends in a unit
};

struct LaunchFacts {
  std::string started;  // UTC, ISO 8601; the earliest of its files
  std::set<std::string> hosts;
  std::set<std::string> gpus = {};  // UUIDs; unknown in baselines of before 2026-11-22
};

/// Launches on the same machine, none of which began more than this after the one before it, are one session: they
/// share the day, the room and the state of the machine, so that all of them together are one look at it.
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
  std::map<std::string, BaselineBenchmark> benchmarks;  // without those that failed or were waived
  std::vector<LeftOut> left_out;
};

/// Errors: InputError where a launch measured a benchmark twice, which is one file named twice under two names.
Baseline baseline_of(const std::vector<Results>&);

/// One baseline for each kind of machine (device, backend, ranks, hosts) among the files.
/// Errors: as above; within a kind, InputError naming a field that differs, with both values; no file at all; a file of
/// an unfinished run or with an injected fault.
std::vector<Baseline> baselines_of(const std::vector<Results>&);

/// Errors: InputError where the machine facts differ, or a launch is in several of them with different figures.
Baseline merge(const std::vector<Baseline>&);

/// A line for each launch that is a copy of another one, on the same side or the other, whatever its name: all figures
/// that both have are the same.
std::vector<std::string> notes_on_copies(const Baseline& now, const Baseline& before);

/// Removes each headline value that is further from the median of at least `launches_to_judge` launches than
/// bonferroni_z(number of values) robust standard deviations and than `least_outlier` of the median, and notes it; but
/// not where another launch of the same hosts and GPUs does not, and it is a latency, or off by less than
/// `launches_differ`.
void leave_out_outliers(Baseline&);
inline constexpr std::size_t launches_to_judge = 5;
inline constexpr double least_outlier = 0.03, launches_differ = 0.2;

void erase_launch(Baseline&, const std::string& name);

/// Keeps the `first` and the `last` launches by time, and leaves out those between.
void keep_launches(Baseline&, std::size_t first, std::size_t last);

/// Strict JSON, one line per benchmark and metric, with values, centre and spread.
std::string baseline_json(const Baseline&);

/// Reads baseline.json files, or result files as a baseline of their launches; of a folder its baseline.json, or, where
/// there is none, its result files. Errors: InputError naming the file; another schema, no benchmarks, an injected
/// fault that is not allowed.
Baseline read_baseline(const std::vector<std::filesystem::path>& files_or_folders, bool allow_faults = false);

/// Writes baseline.json. Errors: InputError if there is a file that is not a baseline of this schema: it is not
/// touched.
void store_baseline(const std::filesystem::path& file, const Baseline&);

/// "h200-sxm/4ranks", "nvidia-b200/16ranks-2hosts": the profile, or else the device, and the number of ranks.
std::filesystem::path baseline_folder(const Baseline&, const std::vector<Profile>&);

/// "node7 (run 324aa8ddf3ba2d00)"
std::string launch_text(const Baseline&, const std::string& launch);

struct FloorOptions {
  double quantile = 0.01;  // of the observed values; of the bad side
  double margin = 0.03;    // below it
};

/// A profile named `name` as YAML that the strict loader accepts: for the headline of each benchmark, a floor (for
/// times a limit from above) at `quantile` less `margin`, with the peaks of `reference` if there is one. Values by rank
/// where ranks work on their own. Errors: InputError if there is nothing to propose, or options that make no sense.
std::string floors_yaml(const Baseline&, const std::string& name, const Profile* reference, const FloorOptions&);

}  // namespace shakedown
