// Which families of a run to judge, and which hosts and ranks it should have.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/results/measured.hpp"

namespace shakedown {

/// Where hosts are, from the site file.
struct Places {
  std::map<std::string, std::string> leaves, racks;  // by host
};

struct JudgeOptions {
  FamilySet families;  // families to judge; all: those that the run requested
  /// Set if the run is incomplete: the reason, because its files then give no verdict.
  std::optional<std::string> unfinished;
  Expected expected;
  std::optional<std::string> run_id;  // if set, files of other runs are rejected
  std::vector<RosterEntry> roster;
  Places places;  // leaf switches of hosts for which the results have none
  bool mixed_runs = false;
  bool allow_faults = false;
  bool is_of_fleet = false;  // true: the runs of all nodes get the lines of a fleet together, so a run alone has none
};

}  // namespace shakedown
