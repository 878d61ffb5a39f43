// Rounds in which every host works with one other host: their rows, and the hosts to measure again. The code is written
// from docs/measuring.md ("Many hosts"), independently of fixtures/pairs.
#pragma once

#include <vector>

#include "thresholds/rehearsal/planned.hpp"
#include "thresholds/rehearsal/shape.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown::rehearsal {

/// Returns the rounds: three inside leaves and three across, or six if there is one leaf or the leaves are unknown.
/// After them, two rounds are AllReduce with two of these partners.
std::vector<Planned> pair_rows(const Shape&);

/// Returns the rows after the rounds. Hosts that were slow in half of their rounds work twice with fast partners, in
/// both directions and in one direction at a time. The rows of these repeated pairs are waived if there are no slow
/// hosts. After them, pairs whose AllReduce was far below that of others repeat it twice.
std::vector<Planned> confirming_rows(const Shape&, const std::vector<Planned>& rounds,
                                     const std::vector<Row>& measured);

}  // namespace shakedown::rehearsal
