// Judges stored runs of many nodes one by one, and compares the nodes with each other.
#pragma once

#include "report/arguments.hpp"
#include "thresholds/judge/fleet.hpp"

namespace shakedown {

/// Finds the runs in the folders of --results (a run, DIR/RUN, DIR/NODE/RUN or DIR/JOB/NODE/RUN), and judges the newest
/// complete run of each node. Hosts of the roster without a run are undecided. Errors: InputError if there is no run.
Fleet judge_fleet(const Arguments&);

}  // namespace shakedown
