// Rounds in which every host works with one other: which rows they have, and which hosts are measured again. Written
// from docs/measuring.md ("Many hosts"), apart from fixtures/pairs.
#pragma once

#include <vector>

#include "thresholds/rehearsal/plan.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown::rehearsal {

/// The rounds: three inside leaves and three across, or six where there is one leaf or none is known; then AllReduce
/// with two of the partners.
std::vector<Planned> pair_rows(const Shape&);

/// Returns the rows after the rounds: hosts that were slow in half of them, with fast partners, both ways and one way
/// at a time, twice; waived where there are none. Then the AllReduces that were far below the others, twice.
std::vector<Planned> confirming_rows(const Shape&, const std::vector<Planned>& rounds,
                                     const std::vector<Row>& measured);

}  // namespace shakedown::rehearsal
