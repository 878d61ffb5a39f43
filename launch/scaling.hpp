// `accept --scaling`: measures on fewer nodes again the families that more nodes may slow down. Each number of nodes
// has a launch of its own. thresholds/history/scaling.hpp judges the figures.
#pragma once

#include <vector>

#include "launch/measure.hpp"

namespace shakedown {

/// Returns the smaller numbers of nodes to measure: 1, which is the reference for efficiency, and those of --scaling,
/// else 1, 2, 4, ... Errors: InputError if --scaling has more nodes than expected, or if there is no family to compare;
/// CannotRun if the number of nodes cannot be changed, or is 1.
std::vector<int> fewer_nodes(const AcceptOptions&, const Launch& of_all, const Programs&);

/// Measures on these numbers of nodes. The results are in RUN/scaling/<N>nodes. If a node is lost, its launch ends, the
/// file "lost" names the node, and the next launch does not use it. Errors: CannotRun after a signal.
void measure_on_fewer_nodes(const AcceptOptions&, const Launch& of_all, const Programs&, const RunFolder&, Signals&);

}  // namespace shakedown
