// `accept --scaling`: repeats what more nodes may slow down on fewer nodes, each number of nodes in a launch of its
// own. thresholds/history/scaling.hpp judges the figures.
#pragma once

#include <vector>

#include "launch/measure.hpp"

namespace shakedown {

/// Returns the smaller numbers of nodes: one node, against which efficiency is defined, and those of --scaling, else 1,
/// 2, 4, ... Errors: InputError for more nodes than expected, or without a family to compare; CannotRun if the number
/// of nodes is fixed, or is one.
std::vector<int> fewer_nodes(const AcceptOptions&, const Launch& of_all, const Programs&);

/// Measures on these numbers of nodes, into RUN/scaling/<N>nodes. A lost node ends its launch, is written to the file
/// "lost", and is left out of the next one. Errors: CannotRun after a signal.
void measure_on_fewer_nodes(const AcceptOptions&, const Launch& of_all, const Programs&, const RunFolder&, Signals&);

}  // namespace shakedown
