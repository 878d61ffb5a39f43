// The texts of shakedown fleet, about the verdict on many nodes.
#pragma once

#include <string>

#include "report/terminal_style.hpp"
#include "thresholds/ledger/fleet.hpp"

namespace shakedown {

/// Returns the headline, a table with a line for each node that is not good (for every node if `all` is set), the
/// skipped runs, and a last line "FLEET: FAIL ...". `now` is in seconds since 1970; it gives the age of the runs.
std::string fleet_text(const Fleet&, const TerminalStyle&, double now);

/// Returns the serial numbers (UUIDs if unknown) of all GPUs of the node, or of those at fault, separated by blanks.
std::string serials_text(const FleetNode&, bool all);

/// Returns "bad since 2026-11-20"; empty if the ledger has no event of the node.
std::string recorded_text(const FleetNode&);

/// Returns "-4.1 % in hbm"; empty if the ledger has no earlier accepted run of its GPUs.
std::string drift_text(const FleetNode&);

std::string fleet_json(const Fleet&);

/// Returns a CSV row for each node. The first row has the names of the columns.
std::string fleet_csv(const Fleet&);

}  // namespace shakedown
