// Rows that a program measures again because a single value is in doubt (docs/measuring.md).
#pragma once

#include <cstddef>
#include <vector>

#include "thresholds/rehearsal/plan.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown::rehearsal {

/// Pairs of GPUs whose copy was low among the others, alone; of processors that took longer, a second turn.
std::vector<Planned> closer_look(const Shape&, const std::vector<Planned>&, const std::vector<Row>&);

/// Indices of the rows that the programs measure twice more.
std::vector<std::size_t> repeated_rows(const std::vector<Planned>&, const std::vector<Row>&);

}  // namespace shakedown::rehearsal
