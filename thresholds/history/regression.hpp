// Comparison with a stored baseline of the same machine kind. Two questions, two functions: has it become slower, by a
// rank test over repetitions; and does a single run still look like its baseline, for a verdict. Pure.
// docs/statistics.md explains the rules.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "thresholds/findings/finding.hpp"
#include "thresholds/history/baseline.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown {

enum class Trend { better, same, worse, inconclusive, missing, added };
constexpr auto words(Trend) { return names("better", "same", "worse", "inconclusive", "missing", "new"); }

struct Change {
  std::string key, metric;
  std::optional<double> before, after;            // medians
  std::size_t before_count = 0, after_count = 0;  // independent values on each side
  std::optional<double> percent;                  // the estimated change, in % of before
  std::optional<double> low, high;                // 95 % of such intervals have the true change above low; below high
  Trend trend = Trend::same;
  std::optional<std::size_t> needed;  // repetitions on each side that would decide it
  std::string detail;                 // why it is missing or inconclusive
};

struct RegressionOptions {
  double min_effect = 0.01;      // relative; a smaller change is never reported
  bool allow_different = false;  // compare another configuration, and say so
  FamilySet families;
};

/// The probability that any benchmark of a comparison is called worse although nothing changed; where something did,
/// the part of wrong ones among those that are called worse. The same for better.
inline constexpr double false_alarm = 0.01;

/// A latency that changed by less is the same whatever the percentage: timers and launches are not finer.
inline constexpr double latency_floor_us = 2.0;

struct Regression {
  std::vector<Change> changes;  // of every benchmark in either set, by key
  std::size_t compared = 0;     // benchmarks with a value in both sets
  int exit_code = 0;            // 1 if anything is worse or missing, or failed now; else 3 if most are inconclusive
  double min_effect = 0;
  std::vector<std::string> notes;  // differences that were allowed, and what the comparison cannot see
};

/// Which fields differ, as "driver is 580.159, the baseline has 570.1"; empty = comparable.
std::vector<std::string> differences(const MachineFacts& current, const MachineFacts& baseline);

/// One figure of one benchmark, each value by itself, old and new in turns in one session: by the same rules. Neither
/// of the two is asked to be as good as the other, so that the same has to exclude a gain as it excludes a loss.
Change judge_change(const std::string& key, const std::string& metric, const std::vector<double>& before,
                    const std::vector<double>& after, double min_effect = RegressionOptions{}.min_effect);

/// Where old and new were not measured in the same sessions, a loss counts only beyond what sessions, or machines,
/// differ by; below that it is inconclusive. Errors: InputError naming field and both values where the two sets cannot
/// be compared and that is not allowed; sets with nothing to compare although nothing is missing; a minimal effect
/// outside (0, 1).
Regression judge_regression(const Measured& current, const Baseline&, const RegressionOptions& = {});

/// How far a run may fall short of its baseline where the baseline's own spread is not wider.
inline constexpr double default_tolerance = 0.05;

/// One finding for each benchmark of the baseline: what a verdict says of a run that is held against it. A run fails
/// beyond the tolerance; where at least launches_to_judge launches show a wider spread, or with fewer such figures are
/// known to differ more from launch to launch, that counts, and between the two it is inconclusive. Errors: as above; a
/// tolerance outside [0, 1).
std::vector<Finding> judge_by_baseline(const Measured& current, const Baseline&, double tolerance,
                                       const FamilySet& families = {});

}  // namespace shakedown
