// Compares a run with a stored baseline of the same kind of machine, for `regress` and for a verdict. The same rules
// apply to one launch against one and to nine against nine. Pure. docs/statistics.md explains the rules.
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
  double min_effect = default_min_effect;  // relative; smaller changes are not reported
  bool allow_different = false;            // compares another configuration, with a note
  FamilySet families;
};

/// A figure that cannot show a loss of this size is not judged, unless at least `launches_to_judge` launches of a side
/// prove that it is worse.
inline constexpr double least_named = 0.1;

struct Regression {
  std::vector<Change> changes;  // every benchmark of either set, by key
  std::size_t compared = 0;     // judged benchmarks with a value in both sets
  int exit_code = 0;            // 1 if any is worse or missing; else 3 if a family, or most of all, is inconclusive
  double min_effect = 0;
  std::vector<std::string> notes;  // permitted differences, and limits of the comparison
};

/// The action after a refused comparison.
inline constexpr std::string_view on_differences =
    "store a baseline of this configuration, or compare with --allow-different";

/// Launches, their baseline, and how they differ in facts that must agree. Both must outlive the object.
struct BaselinePair {
  BaselinePair(const Measured& current, const Baseline& before);

  const Measured& current;
  Baseline now;  // of `current`
  const Baseline& before;
  std::vector<std::string> differences;
};

/// Compares. A loss counts if it is at least the minimal effect and larger than the noise of launches, days and
/// machines. Errors: InputError with field and both values if the sets differ without permission; for sets without
/// common benchmarks unless some are missing; for a minimal effect outside (0, 1).
Regression judge_regression(BaselinePair, const RegressionOptions& = {});
Regression judge_regression(const Measured& current, const Baseline&, const RegressionOptions& = {});

/// The largest loss against a baseline that passes in a verdict, by default.
inline constexpr double default_tolerance = 0.05;

/// Returns a finding for each change, except for added benchmarks.
std::vector<Finding> findings_of(const Regression&, const Measured& current);

}  // namespace shakedown
