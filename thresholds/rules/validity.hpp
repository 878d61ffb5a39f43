// The judgement of single figures: can this be true at all? Needs no rule; a profile gives more ceilings. Pure.
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

/// No remote memory answers faster: NVLink and the fabric of a GPU take 0.5 us and more, a launch some us.
inline constexpr double least_latency_us = 0.3;

/// The value of a run is that of its slowest rank, sample by sample, so it cannot be better than that rank's own median
/// (rounding aside), and on GPUs it is not worse than this many times.
inline constexpr double agreement_factor = 5;

/// For each benchmark the first figure that cannot be true, as a finding `invalid`: zero, negative or not finite where
/// something was counted or timed, above its ceiling, or in contradiction to another figure of the same row. Where
/// a rank that took part or a declared repetition is not there, `missing`; where the profile's cv_max is broken,
/// `inconclusive`. Nothing about what can be true.
std::vector<Finding> judge_validity(const Benchmarks&, const Profile*, const FamilySet& families);

}  // namespace shakedown
