// What of a run is judged, and what it should consist of.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/results/measured.hpp"

namespace shakedown {

/// Where hosts stand, as the site file says.
struct Places {
  std::map<std::string, std::string> leaves, racks;  // by host
};

struct JudgeOptions {
  FamilySet families;                     // judged; all: those that the run was asked for
  std::optional<std::string> unfinished;  // why the run has not come to its end: what is there of it is no verdict
  Expected expected;
  std::optional<std::string> run_id;  // the only run whose files are judged
  std::vector<RosterEntry> roster;
  Places places;  // leaves: of hosts whose leaf switch is not on record
  bool mixed_runs = false;
  bool allow_faults = false;
};

}  // namespace shakedown
