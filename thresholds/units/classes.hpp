// Classes of benchmarks: GEMM by type, HBM by direction and engine, copies by link and by the GPU at either end. A unit
// is judged by the median of its shortfalls over the rows of a class, so that no single value of hundreds decides.
// Pure. docs/statistics.md explains the statistics.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "thresholds/units/table.hpp"

namespace shakedown {

/// Fills the columns of a table from its comparisons and its telemetry, and marks the values that stand out.
void fill_columns(UnitTable&);

/// "gemm" and "gemm/dtype:bf16": the classes of a row, the widest first.
std::vector<Key> classes_of(const Key&);

/// The unit that a value at `rank` describes in a class: the GPU, the link from `from` to it, or, in a class of copies
/// by one end ("end:src", "end:dst"), the GPU at that end.
Unit unit_of(const Key& class_name, int rank, std::optional<int> from);

/// The number of healthy units among sorted shortfalls if half or more are slow: they form two groups, further apart
/// than `effect` and than either is wide. All of them if there is one group. One fast GPU is no group.
std::size_t better_group(const std::vector<double>& sorted, double effect);

/// The key of a row with that of the other ranks, where each works by itself: "active:one/rank:*".
Key of_each_rank(const Key&);

}  // namespace shakedown
