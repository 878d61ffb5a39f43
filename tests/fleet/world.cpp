#include "tests/fleet/world.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace shakedown::fleet {

World World::at_attempt(std::uint64_t number) const {
  World world = *this;
  world.attempt = number;
  return world;
}

const Json& World::of_template(const std::string& key) const {
  for (const auto& row : templates.at(key.substr(0, key.find('/')))["benchmarks"]) {
    if (key_of(row["name"]) == key) return row;
  }
  throw std::runtime_error(plan.source.string() + ": there is no row " + key);
}

Clock World::clock(const std::string& key, int rank, double usual, bool capped) const {
  double mhz = std::min(usual, max_mhz);
  if (capped) mhz = std::min(mhz * good(Kind::clock, key, rank) * std::sqrt(damage.power_part(rank)), max_mhz - 1);
  if (!capped)
    mhz *= 1 - 0.0005 * std::abs(chances.dice(Kind::clock, key).at(9).at(static_cast<std::uint64_t>(rank)).normal());
  const auto* const fault = damage.clock_fault(rank, mhz);
  return {fault != nullptr ? damage.limit_mhz(*fault) : mhz, capped && fault == nullptr && mhz < max_mhz - 1};
}

}  // namespace shakedown::fleet
