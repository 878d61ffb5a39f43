// The texts of shakedown fleet, about the verdict on many nodes.
#pragma once

#include <string>

#include "report/terminal_style.hpp"
#include "thresholds/judge/fleet.hpp"

namespace shakedown {

/// Returns the headline, a table with a line for each node that is not good (for every node if `all` is set), the
/// skipped runs, and a last line "FLEET: FAIL ...". `now` is in seconds since 1970; it gives the age of the runs.
std::string fleet_text(const Fleet&, const TerminalStyle&, double now);

std::string fleet_json(const Fleet&);

/// Returns a CSV row for each node. The first row has the names of the columns.
std::string fleet_csv(const Fleet&);

}  // namespace shakedown
