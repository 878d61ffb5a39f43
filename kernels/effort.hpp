// How much work a run does in addition to its samples, by the seconds that one operation takes. The limits leave all
// rows of H100 and H200 as they are, but for steps that accumulate, of 1.8 s.
#pragma once

#include <algorithm>

namespace shakedown {

/// From this time on one step brings a GPU to its power limit, and one operation is a lasting load.
inline constexpr double lasting_seconds = 1.2;

/// Training steps before the samples. A GPU at its power limit is faster for some steps after any pause, and slower for
/// some after these.
constexpr int warm_up_steps(double step_seconds) { return step_seconds < lasting_seconds ? 3 : 1; }

/// The number of training steps that run after the checks and before more steps are measured.
constexpr int lead_in_steps(double step_seconds) { return step_seconds < lasting_seconds ? 1 : 0; }

/// The number of training steps without sums that run after the samples.
constexpr int steps_alone(double step_seconds) { return step_seconds < lasting_seconds ? 2 : 1; }

/// Steps that choose when gradients are summed: each of two options in an even and in an odd position. The choice saves
/// 1 % of a step, so long steps do not make it.
constexpr int bucket_trials(double step_seconds) { return step_seconds < 2 * lasting_seconds ? 4 : 0; }

/// The most seconds that samples timed one by one may take, and the least number of these samples.
inline constexpr double most_single_seconds = 10;
inline constexpr int least_single_samples = 5;

/// Returns the number of operations to time one by one, of `wanted` if each takes `seconds` (0: unknown).
inline int single_samples(int wanted, double seconds) {
  if (wanted * seconds <= most_single_seconds) return wanted;
  return std::max(std::min(wanted, least_single_samples), static_cast<int>(most_single_seconds / seconds));
}

}  // namespace shakedown
