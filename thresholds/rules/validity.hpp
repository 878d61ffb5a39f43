// Checks whether single figures are possible. Needs no rule; a profile gives more ceilings. Pure.
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

/// The shortest latency of remote memory: NVLink and the fabric of a GPU take 0.5 us and more, a launch some us.
inline constexpr double least_latency_us = 0.3;

/// The value of a run is that of its slowest rank, sample by sample. It cannot be better than that rank's own median
/// (except for rounding), and on GPUs it is at most this many times worse.
inline constexpr double agreement_factor = 5;

/// Returns for each benchmark the first impossible figure as a finding `invalid`: zero, negative or not finite for a
/// count or a time, above its ceiling, or in contradiction to another figure of the same row. A missing rank or
/// declared repetition is `missing`; a cv above the profile's cv_max is `inconclusive`.
std::vector<Finding> judge_validity(const Benchmarks&, const Profile*, const FamilySet& families);

}  // namespace shakedown
