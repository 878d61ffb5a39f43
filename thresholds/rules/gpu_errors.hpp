// Errors that GPUs counted during the measurement, and clocks that heat or the power supply lowered. The functions are
// pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "thresholds/findings/finding.hpp"

namespace shakedown {

/// A GPU fails if its hardware or heat slowed it for this fraction of the time of a family. A smaller fraction is a
/// warning. No stored launch of a healthy GPU has a slowdown. NVML may report one while a clock changes, and its values
/// may be 100 ms old. Therefore one such value in two seconds, or one row of twenty, is not a fault.
inline constexpr double min_slowdown = 0.05;

/// Returns a finding machine/errors/rank:N or machine/slowdown/rank:N for each GPU with errors. Errors that only cost
/// time, or that programs cause, are warnings. Only benchmarks of `families` are used.
std::vector<Finding> judge_gpu_errors(const std::vector<Results>&, const FamilySet& families);

}  // namespace shakedown
