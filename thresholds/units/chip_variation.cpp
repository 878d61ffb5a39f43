#include "thresholds/units/chip_variation.hpp"

#include <algorithm>
#include <cmath>

namespace shakedown {
namespace {

// 22 % is published for healthy chips. This published value is the minimum for small fleets if the driver reports the
// power cap.
constexpr double chips = 0.025, chips_differ = 0.22;
// No healthy chip with less than this fraction of the rate of other chips was ever published.
constexpr double never_healthy = 0.5;
// Fractions of fleets in which a healthy chip may be named. `alpha_by_power` is smaller, because if power explains the
// clock, an accusation is more likely to be wrong than right.
constexpr double alpha = 0.01, alpha_by_power = 0.002;

}  // namespace

// The tail of Student's t with 5 degrees of freedom is 9.49 / x^5. The factor 0.927 gives it the interquartile range of
// a normal distribution.
double worst_of(std::size_t n, double part) { return 0.927 * std::pow(9.49 / part * static_cast<double>(n), 0.2); }

double slowest_of(std::size_t n, bool by_power) {
  return by_power ? std::clamp(1 - std::exp(-chips * worst_of(n, alpha_by_power)), chips_differ, never_healthy)
                  : std::min(chips_differ, chips * worst_of(n, alpha));
}

}  // namespace shakedown
