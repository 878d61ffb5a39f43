// The families of a run to judge, and the hosts and ranks that it should have.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/results/measured.hpp"

namespace shakedown {

/// The places of hosts from the site file.
struct Places {
  std::map<std::string, std::string> leaves, racks;  // by host
};

struct JudgeOptions {
  FamilySet families;                     // to judge; all: those that the run requested
  std::optional<std::string> unfinished;  // why the run is incomplete, so that its files give no verdict
  Expected expected;
  std::optional<std::string> run_id;  // the only run whose files are accepted
  std::vector<RosterEntry> roster;
  Places places;  // leaf switches of hosts without one in the results
  bool mixed_runs = false;
  bool allow_faults = false;
};

}  // namespace shakedown
