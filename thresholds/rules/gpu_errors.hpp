// What GPUs counted and reported while they were measured: errors, and clocks held down by heat or the supply. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "thresholds/findings/finding.hpp"

namespace shakedown {

/// Held down by the hardware or by heat for this part of the time of a family's benchmarks, a GPU fails; for less it is
/// a warning. No stored launch of a healthy GPU shows any; but NVML says that a slowdown may be reported while a clock
/// changes, and its answers are 100 ms old at most: one of them in two seconds, or one row of twenty, is no fault.
inline constexpr double slowed_down = 0.05;

/// Returns, for each GPU that counted or reported something, a finding machine/errors/rank:N, or
/// machine/slowdown/rank:N; of what costs time only, or is the program's, a warning. Nothing of the others. `families`:
/// only in their benchmarks.
std::vector<Finding> judge_gpu_errors(const std::vector<Results>&, const FamilySet& families);

}  // namespace shakedown
