#include "thresholds/units/chip_variation.hpp"

#include <algorithm>
#include <cmath>

namespace shakedown {
namespace {

// 22 % is published of healthy chips. Fewer are not to be closer to each other than that where the driver says why.
constexpr double chips = 0.025, chips_differ = 0.22;
// No healthy chip at less than half of the rate of the others was ever published.
constexpr double never_healthy = 0.5;
// Shares of fleets. If power explains the clock, a wrong name is more likely than a fault.
constexpr double alpha = 0.01, alpha_by_power = 0.002;

}  // namespace

// The tail of t with 5 degrees of freedom is 9.49 / x^5; 0.927 gives it the middle half of a normal.
double worst_of(std::size_t n, double part) { return 0.927 * std::pow(9.49 / part * static_cast<double>(n), 0.2); }

double slowest_of(std::size_t n, bool by_power) {
  return by_power ? std::clamp(1 - std::exp(-chips * worst_of(n, alpha_by_power)), chips_differ, never_healthy)
                  : std::min(chips_differ, chips * worst_of(n, alpha));
}

}  // namespace shakedown
