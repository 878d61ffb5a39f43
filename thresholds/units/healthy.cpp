#include "thresholds/units/healthy.hpp"

#include <algorithm>
#include <cmath>

namespace shakedown {
namespace {

constexpr double spread_of_chips = 0.025,
                 max_shortfall_of_chips = 0.22;  // 22 % is published for the chips of a whole cluster
constexpr double max_published_shortfall = 1 / 3.0;
// The fraction of fleets in which a healthy chip misses a limit of its profile too clearly, if power does not explain
// its clock.
constexpr double alpha = 0.01;

}  // namespace

// The tail of Student's t with 5 degrees of freedom is 9.49 / x^5. The factor 0.927 gives it the interquartile range of
// a normal distribution.
double worst_of(std::size_t n, double part) { return 0.927 * std::pow(9.49 / part * static_cast<double>(n), 0.2); }

double worst_by_best(double best) { return best * std::pow(healthy_named, -0.2); }

double slowest_of(std::size_t n, bool by_power) {
  if (by_power) return n < large_fleet ? max_shortfall_of_chips : max_published_shortfall;
  return std::min(max_shortfall_of_chips, spread_of_chips * worst_of(n, alpha));
}

}  // namespace shakedown
