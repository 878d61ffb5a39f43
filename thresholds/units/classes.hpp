// Classes of benchmarks: GEMM by type, HBM by direction and engine, copies by link and by the GPU at either end. A unit
// is judged by the median of its shortfalls over the rows of a class, so that no single value decides. The functions
// are pure. docs/statistics.md explains the statistics.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "thresholds/units/table.hpp"

namespace shakedown {

/// Fills the columns of a table from its comparisons and telemetry, and marks the outliers.
void fill_columns(UnitTable&);

/// Returns the classes of a row, the widest first, such as "gemm" and "gemm/dtype:bf16".
std::vector<Key> classes_of(const Key&);

/// Returns the unit that a value at `rank` describes: the GPU; the link to it from `from`; or, in a class of copies by
/// one end ("end:src", "end:dst"), the GPU at that end.
Unit unit_of(const Key& class_name, int rank, std::optional<int> from);

/// Returns the number of healthy units among sorted shortfalls, for the case that at least half of the units are slow.
/// There must be two groups whose distance exceeds both `effect` and the width of each. If there is only one group, all
/// are healthy. A single fast GPU is not a group.
std::size_t better_group(const std::vector<double>& sorted, double effect);

/// Returns the key that rows have in common if each is the work of one rank: "active:one/rank:*".
Key of_each_rank(const Key&);

}  // namespace shakedown
