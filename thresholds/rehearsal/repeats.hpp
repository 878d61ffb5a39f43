// Rows that a program measures again because a single value is in doubt (docs/measuring.md).
#pragma once

#include <cstddef>
#include <vector>

#include "thresholds/rehearsal/plan.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown::rehearsal {

/// Pairs of GPUs whose copy was low among the others, alone; of processors that took longer, a second turn.
std::vector<Planned> closer_look(const Shape&, const std::vector<Planned>&, const std::vector<Row>&);

/// Indices of rows with a value that is low on some GPU, which are then measured twice more.
std::vector<std::size_t> rows_in_doubt(const std::vector<Planned>&, const std::vector<Row>&);

}  // namespace shakedown::rehearsal
