// Checks whether single figures are possible. These checks need no rule; a profile adds ceilings. The functions are
// pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/findings/finding.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/rules/profile.hpp"

namespace shakedown {

/// In each sample, the value of the run is that of its slowest rank. Therefore it cannot be better than that rank's own
/// median (except for rounding). On GPUs it is worse by at most this factor.
inline constexpr double agreement_factor = 5;

/// Returns, for each benchmark, its first impossible figure as an `invalid` finding: a count or a time is zero,
/// negative or not finite, a figure is above its ceiling, or it contradicts another figure of the same row. If a rank
/// or a promised repetition is missing, the finding is `missing`. If the cv is above the profile's cv_max, it is
/// `inconclusive`.
std::vector<Finding> judge_validity(const Benchmarks&, const Profile*, const FamilySet& families);

}  // namespace shakedown
