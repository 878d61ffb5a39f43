// Classes of benchmarks: GEMM by type, HBM by direction and engine, copies by link and by the GPU at either end. A unit
// is judged by the median of its shortfalls over the rows of a class, so that no single value decides. The functions
// are pure. docs/statistics.md explains the statistics.
#pragma once

#include <cstddef>
#include <vector>

#include "thresholds/units/table.hpp"

namespace shakedown {

/// Returns how many threads may compare the values of a table: 1 for small ones, whose judges run at the same time.
std::size_t threads_for(const UnitTable&);

/// Fills the columns of a table from its comparisons and telemetry, and marks the outliers.
void fill_columns(UnitTable&);

/// Returns the number of healthy units among sorted shortfalls, for the case that at least half of the units are slow.
/// There must be two groups whose distance exceeds both `effect` and the width of each. If there is only one group, all
/// are healthy. A single fast GPU is not a group.
std::size_t better_group(const std::vector<double>& sorted, double effect);

}  // namespace shakedown
