// From the times of the ranks to what a row of results says.
#pragma once

#include <optional>
#include <vector>

#include "thresholds/rehearsal/machine.hpp"
#include "thresholds/rehearsal/plan.hpp"
#include "thresholds/rehearsal/random.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown::rehearsal {

/// By rank; nullopt: it took no part.
struct Times {
  std::vector<std::optional<double>> seconds, mhz;
  std::vector<std::optional<double>> own;      // of a training step, its own work
  std::vector<std::optional<double>> partner;  // of a pair of hosts, a rank
};

/// All figures of a row tell the same times. `shown`: for what decides nothing.
Row figures(const Machine&, const Planned&, const Times&, Random& shown);

Row waived_row(const Machine&, const Planned&);

}  // namespace shakedown::rehearsal
