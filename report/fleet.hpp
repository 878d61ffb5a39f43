// shakedown fleet: stored runs of many nodes, each judged alone, and compared with each other.
#pragma once

#include <string>

#include "report/arguments.hpp"
#include "thresholds/judge/fleet.hpp"

namespace shakedown {

/// Finds the runs in the folders of --results (a run, DIR/RUN, DIR/NODE/RUN or DIR/JOB/NODE/RUN), and judges the newest
/// complete run of each node. Hosts of a roster that have no run are undecided. Errors: InputError if there is no run.
Fleet judge_fleet(const Arguments&);

/// Returns the headline, a table with a line for each node that is not good (for each node with `all`), what was left
/// out, and a last line "FLEET: FAIL ...". `now`: seconds since 1970, for the age of runs.
std::string fleet_text(const Fleet&, const TerminalStyle&, double now);

std::string fleet_json(const Fleet&);

/// Returns a row for each node, with names in the first row.
std::string fleet_csv(const Fleet&);

}  // namespace shakedown
