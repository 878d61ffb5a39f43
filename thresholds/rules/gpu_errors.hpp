// Errors that GPUs counted during the measurement, and clocks lowered by heat or the power supply. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "thresholds/findings/finding.hpp"

namespace shakedown {

/// A GPU fails if its hardware or heat slowed it for this share of the time of a family; a smaller share warns. No
/// stored launch of a healthy GPU shows any. NVML may report a slowdown while a clock changes, and its values are up to
/// 100 ms old, so one of them in two seconds, or one row of twenty, is not a fault.
inline constexpr double slowed_down = 0.05;

/// Returns a finding machine/errors/rank:N or machine/slowdown/rank:N for each GPU with errors. Errors that only cost
/// time, or that programs cause, warn. Only benchmarks of `families` count.
std::vector<Finding> judge_gpu_errors(const std::vector<Results>&, const FamilySet& families);

}  // namespace shakedown
