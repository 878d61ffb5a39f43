#include "kernels/profile.hpp"

#include <numeric>

namespace shakedown {

TimeByClass time_by_class(const StepProfile& profile) {
  TimeByClass mean;
  const auto steps = static_cast<double>(profile.steps.size());
  for (const auto& step : profile.steps) {
    mean.whole_ms += step.ms / steps;
    for (const auto& part : step.parts) mean.milliseconds[static_cast<std::size_t>(part.part_class)] += part.ms / steps;
  }
  mean.fixed_ms = mean.whole_ms - std::accumulate(mean.milliseconds.begin(), mean.milliseconds.end(), 0.0);
  return mean;
}

}  // namespace shakedown
