// Classes of benchmarks: GEMM by type, HBM by direction and engine, copies by link and by the GPU at either end. A unit
// is judged by the median of its shortfalls over the rows of a class, so that no single value decides. Pure.
// docs/statistics.md explains the statistics.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "thresholds/units/table.hpp"

namespace shakedown {

/// Fills the columns of a table from its comparisons and telemetry, and marks the outliers.
void fill_columns(UnitTable&);

/// Returns the classes of a row, the widest first: "gemm" and "gemm/dtype:bf16".
std::vector<Key> classes_of(const Key&);

/// Returns the unit of a value at `rank` in a class: the GPU, the link to it from `from`, or, in a class of copies by
/// one end ("end:src", "end:dst"), the GPU at that end.
Unit unit_of(const Key& class_name, int rank, std::optional<int> from);

/// Returns the number of healthy units among sorted shortfalls if half or more are slow: two groups, further apart than
/// `effect` and than either is wide. All of them if there is one group. A single fast GPU is not a group.
std::size_t better_group(const std::vector<double>& sorted, double effect);

/// Returns the common key of rows in which each rank works by itself: "active:one/rank:*".
Key of_each_rank(const Key&);

}  // namespace shakedown
