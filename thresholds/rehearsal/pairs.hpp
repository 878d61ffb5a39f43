// Rounds in which every host works with one other host: their rows, and the hosts to measure again. Written from
// docs/measuring.md ("Many hosts"), independently of fixtures/pairs.
#pragma once

#include <vector>

#include "thresholds/rehearsal/plan.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown::rehearsal {

/// Returns the rounds: three inside leaves and three across, or six if there is one leaf or none is known. AllReduce
/// with two of the partners follows.
std::vector<Planned> pair_rows(const Shape&);

/// Returns the rows after the rounds. Hosts that were slow in half of them work twice with fast partners, in both
/// directions and in one direction at a time; these rows are waived if there are none. AllReduces far below the others
/// follow, twice.
std::vector<Planned> confirming_rows(const Shape&, const std::vector<Planned>& rounds,
                                     const std::vector<Row>& measured);

}  // namespace shakedown::rehearsal
