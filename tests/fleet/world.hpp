// What the rows of a made-up fleet are made from.
#pragma once

#include <map>
#include <string>

#include "tests/fleet/chances.hpp"
#include "tests/fleet/damage.hpp"

namespace shakedown::fleet {

/// Documents of the stored run, by family.
using Templates = std::map<std::string, Json>;

struct Clock {
  double mhz;
  bool at_power_cap;
};

/// All must outlive it.
struct World {
  const Plan& plan;
  const Templates& templates;
  const Site& site;
  const Chances& chances;
  const Damage& damage;
  double max_mhz;
  std::uint64_t attempt = 0;  // at the row that is being made

  World at_attempt(std::uint64_t number) const;

  /// Errors: std::runtime_error where there is none.
  const Json& of_template(const std::string& key) const;
  double good(Kind kind, const std::string& key, int rank) const { return chances.good(kind, key, rank, attempt); }
  /// The SM clock of a rank in a row whose usual one is known.
  Clock clock(const std::string& key, int rank, double usual, bool capped) const;
};

}  // namespace shakedown::fleet
