// shakedown fleet: judges stored runs of many nodes one by one, and compares the nodes with each other.
#pragma once

#include <string>

#include "report/arguments.hpp"
#include "thresholds/judge/fleet.hpp"

namespace shakedown {

/// Finds the runs in the folders of --results (a run, DIR/RUN, DIR/NODE/RUN or DIR/JOB/NODE/RUN), and judges the newest
/// complete run of each node. Hosts of the roster without a run are undecided. Errors: InputError if there is no run.
Fleet judge_fleet(const Arguments&);

/// Returns the headline, a table with a line for each node that is not good (for every node if `all` is set), the
/// skipped runs, and a last line "FLEET: FAIL ...". `now` is in seconds since 1970; it gives the age of the runs.
std::string fleet_text(const Fleet&, const TerminalStyle&, double now);

std::string fleet_json(const Fleet&);

/// Returns a CSV row for each node. The first row has the names of the columns.
std::string fleet_csv(const Fleet&);

}  // namespace shakedown
