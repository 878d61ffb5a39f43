// Converts the times of the ranks to a row of results.
#pragma once

#include <optional>
#include <vector>

#include "thresholds/rehearsal/machine.hpp"
#include "thresholds/rehearsal/plan.hpp"
#include "thresholds/rehearsal/random.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown::rehearsal {

/// Times by rank; nullopt for a rank that did not take part.
struct Times {
  RankValues seconds, mhz;
  RankValues own;      // for a training step: the rank's own work
  RankValues partner;  // for a pair of hosts: the partner, as a rank
};

/// Returns a row in which all values agree with these times. `shown` is for values that no rule uses.
Row figures(const Machine&, const Planned&, const Times&, Random& shown);

/// Returns the number of operations of a sample.
double operations(double seconds);

Row waived_row(const Machine&, const Planned&);

}  // namespace shakedown::rehearsal
