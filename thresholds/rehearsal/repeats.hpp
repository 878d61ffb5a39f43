// Rows that a program measures again because of a single doubtful value (docs/measuring.md).
#pragma once

#include <cstddef>
#include <vector>

#include "thresholds/rehearsal/plan.hpp"
#include "thresholds/results/results.hpp"
#include "thresholds/units/doubt.hpp"

namespace shakedown::rehearsal {

/// Returns the rows to add: copies of single GPU pairs that were slower than others, and a second turn of slow CPU
/// rows.
std::vector<Planned> closer_look(const Shape&, const std::vector<Planned>&, const std::vector<Row>&);

/// Returns the indices of the rows that the programs measure two more times: those with a doubtful value, and `missed`,
/// the rows that miss a limit.
std::vector<std::size_t> repeated_rows(const std::vector<Planned>&, const std::vector<Row>&,
                                       const std::vector<Doubt>& missed);

}  // namespace shakedown::rehearsal
