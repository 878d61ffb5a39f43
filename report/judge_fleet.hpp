// Judges stored runs of many nodes one by one, and compares the nodes with each other.
#pragma once

#include "report/arguments.hpp"
#include "thresholds/ledger/fleet.hpp"

namespace shakedown {

/// Finds the runs in the folders of --results (a run, DIR/RUN, DIR/NODE/RUN or DIR/JOB/NODE/RUN), and judges the newest
/// complete run of each node. Hosts of the roster without a run are undecided. With a ledger, each node has its state
/// and its drift. Errors: InputError if there is no run, or the ledger cannot be read.
Fleet judge_fleet(const Arguments&);

}  // namespace shakedown
