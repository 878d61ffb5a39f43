// Comparison with a stored baseline of the same kind of machine: for `regress` and, as findings, for a verdict. One
// judge for one launch against one and for nine against nine. Pure. docs/statistics.md explains the rules.
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
  double min_effect = default_min_effect;  // relative; a smaller change is never reported
  bool allow_different = false;            // compare another configuration, and note it
  FamilySet families;
};

/// A figure that cannot show a loss of this part is not judged, unless at least `launches_to_judge` launches on a side
/// prove it worse.
inline constexpr double least_named = 0.1;

struct Regression {
  std::vector<Change> changes;  // of every benchmark in either set, by key
  std::size_t compared = 0;     // benchmarks with a value in both sets that were judged
  int exit_code = 0;            // 1 if any is worse or missing; else 3 if a family, or most of all, is inconclusive
  double min_effect = 0;
  std::vector<std::string> notes;  // differences that were allowed, and what the comparison cannot see
};

/// What to do about differences.
inline constexpr std::string_view on_differences =
    "store a baseline of this configuration, or compare all the same with --allow-different";

/// Launches, the baseline that they are compared with, and how the two differ in what must agree. Both must outlive it.
struct BaselinePair {
  BaselinePair(const Measured& current, const Baseline& before);

  const Measured& current;
  Baseline now;  // of `current`
  const Baseline& before;
  std::vector<std::string> differences;
};

/// A loss counts if it is at least the minimal effect and more than launches, days and machines differ by. Errors:
/// InputError naming field and both values if the two sets cannot be compared and that is not allowed; sets with
/// nothing to compare although nothing is missing; a minimal effect outside (0, 1).
Regression judge_regression(BaselinePair, const RegressionOptions& = {});
Regression judge_regression(const Measured& current, const Baseline&, const RegressionOptions& = {});

/// How far a run may fall short of its baseline in a verdict, unless the user gives another part.
inline constexpr double default_tolerance = 0.05;

/// One finding for each change but added ones, for a verdict of what was measured.
std::vector<Finding> findings_of(const Regression&, const Measured& current);

}  // namespace shakedown
