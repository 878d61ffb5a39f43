// The families of a run to judge, and the hosts and ranks that it should have.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/results/measured.hpp"

namespace shakedown {

/// The places of hosts, from the site file.
struct Places {
  std::map<std::string, std::string> leaves, racks;  // by host
};

struct JudgeOptions {
  FamilySet families;                     // judged; all: those that the run was asked for
  std::optional<std::string> unfinished;  // why the run is not complete: its files alone give no verdict
  Expected expected;
  std::optional<std::string> run_id;  // the only run whose files are judged
  std::vector<RosterEntry> roster;
  Places places;  // leaves: of hosts whose leaf switch is not on record
  bool mixed_runs = false;
  bool allow_faults = false;
};

}  // namespace shakedown
