// Limits of the shared storage, for the rows of the family storage that a run has.
#pragma once

#include <vector>

#include "thresholds/results/measured.hpp"
#include "thresholds/rules/profile.hpp"
#include "thresholds/rules/site.hpp"

namespace shakedown {

/// Returns the rules: the rates that the site file states for each host, and the time after which all hosts must see a
/// file. `site` is null if there is no site file; the rates then have no limit. A run without the family has none.
std::vector<Rule> rules_of_storage(const Site* site, const Measured&);

}  // namespace shakedown
