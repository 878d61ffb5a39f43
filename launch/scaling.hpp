// `accept --scaling`: what more nodes may slow is measured on fewer nodes too, each number of them by a launch of its
// own. thresholds/history/scaling.hpp judges the figures.
#pragma once

#include <vector>

#include "launch/measure.hpp"

namespace shakedown {

/// The numbers of nodes below all of them: those that --scaling names and one node, against which efficiency is
/// defined; 1, 2, 4, ... where it names none. Errors: InputError for more nodes than were promised, or without a
/// family that could be compared; CannotRun where their number is not ours to choose, or there is one.
std::vector<int> fewer_nodes(const AcceptOptions&, const Launch& of_all, const Programs&);

/// Measures on them, into RUN/scaling/<N>nodes. A node that is lost ends that launch, is said in its file "lost", and
/// is left out of the next one. Errors: CannotRun after a signal.
void measure_on_fewer_nodes(const AcceptOptions&, const Launch& of_all, const Programs&, const RunFolder&, Signals&);

}  // namespace shakedown
