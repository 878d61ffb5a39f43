// Compares a run with a stored baseline of the same kind of machine, for `regress` and for a verdict. The same rules
// apply if one launch is compared with one, or nine with nine. The functions are pure. docs/statistics.md explains the
// rules.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "thresholds/findings/finding.hpp"
#include "thresholds/history/baseline.hpp"
#include "thresholds/history/change.hpp"
#include "thresholds/results/measured.hpp"

namespace shakedown {

struct RegressionOptions {
  double min_effect = default_min_effect;  // relative change; smaller changes are not reported
  bool allow_different = false;            // true: also compares other configurations, and adds a note
  FamilySet families = {};
  std::size_t comparisons = 1;  // number of comparisons that together have the probability `false_alarm`
};

/// If a loss of this size could not be detected, the figure is not judged, unless at least `launches_to_judge` launches
/// of a side prove that it is worse.
inline constexpr double min_unjudged_loss = 0.1;

struct Regression {
  std::vector<Change> changes;  // all benchmarks of both sets, by key
  std::size_t compared = 0;     // number of judged benchmarks that have a value in both sets
  /// 1 if a benchmark is worse or missing; else 3 if a family, or most benchmarks, are inconclusive.
  int exit_code = 0;
  double min_effect = 0;
  std::vector<std::string> notes;  // notes on permitted differences and on limits of the comparison
};

/// What to do after a comparison was refused.
inline constexpr std::string_view on_differences =
    "store a baseline of this configuration, or compare with --allow-different";

/// Launches and their baseline, and the differences in facts that should be equal. Both arguments must outlive the
/// object.
struct BaselinePair {
  BaselinePair(const Measured& current, const Baseline& before);
  BaselinePair(const Measured& current, Baseline now, const Baseline& before);

  const Measured& current;
  Baseline now;  // made from `current`
  const Baseline& before;
  std::vector<std::string> differences;
};

/// Compares the two sets. A loss counts if it is at least the minimal effect and exceeds the noise of launches, days
/// and machines. Errors: InputError with field and both values if the sets differ without permission; for sets without
/// a common benchmark, unless benchmarks are missing; for a minimal effect outside (0, 1).
Regression judge_regression(BaselinePair, const RegressionOptions& = {});
Regression judge_regression(const Measured& current, const Baseline&, const RegressionOptions& = {});
/// Compares two sets of launches without their files.
Regression judge_launches(const Baseline& now, const Baseline& before, const RegressionOptions& = {});

/// The largest loss against a baseline that passes in a verdict, by default.
inline constexpr double default_tolerance = 0.05;

/// Returns a finding for each change, except for benchmarks that only the new measurement has.
std::vector<Finding> findings_of(const Regression&, const Measured& current);

}  // namespace shakedown
