// The amount of work of a run in addition to its samples, by the seconds that one operation takes. On H100 and H200 the
// limits change only training steps with gradient accumulation, of 1.8 s.
#pragma once

#include <algorithm>

namespace shakedown {

/// A training step of at least this time brings a GPU to its power limit, and one operation is a sustained load.
inline constexpr double lasting_seconds = 1.2;

/// Returns the number of training steps before the samples. After a pause, a GPU at its power limit is faster for some
/// steps, and then slower for some steps.
constexpr int warm_up_steps(double step_seconds) { return step_seconds < lasting_seconds ? 3 : 1; }

/// The number of training steps that run after the checks and before more steps are measured.
constexpr int lead_in_steps(double step_seconds) { return step_seconds < lasting_seconds ? 1 : 0; }

/// The number of training steps without sums that run after the samples.
constexpr int steps_alone(double step_seconds) { return step_seconds < lasting_seconds ? 2 : 1; }

/// Returns the number of training steps that choose when gradients are summed: each of two options in an even and in an
/// odd position. The choice saves 1 % of a step, so long steps are not used for it.
constexpr int bucket_trials(double step_seconds) { return step_seconds < 2 * lasting_seconds ? 4 : 0; }

/// The most seconds that samples timed one by one may take, and the least number of these samples.
inline constexpr double max_single_seconds = 10;
inline constexpr int min_single_samples = 5;

/// Returns how many of `wanted` operations to time one by one, if each takes `seconds` (0: unknown).
inline int single_samples(int wanted, double seconds) {
  if (wanted * seconds <= max_single_seconds) return wanted;
  return std::max(std::min(wanted, min_single_samples), static_cast<int>(max_single_seconds / seconds));
}

}  // namespace shakedown
