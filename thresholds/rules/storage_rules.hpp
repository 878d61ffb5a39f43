// Limits of the shared storage, for the rows of the family storage that a run has.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "thresholds/results/measured.hpp"
#include "thresholds/rules/profile.hpp"

namespace shakedown {

/// What a site file states of its storage, by metric, such as read_gb_per_s of one host.
struct StorageFloors {
  std::map<std::string, double> by_metric;
  std::string source, at;  // of the statement, and its file
};

/// Returns the rules: the stated rates, and the time after which all hosts must see a file. Without floors, rates have
/// no limit. A run without the family has no rules.
std::vector<Rule> rules_of_storage(const StorageFloors&, const Measured&);

}  // namespace shakedown
