// A GPU, or the copies from one GPU to another, judged by classes of rows: GEMM by type, HBM by direction, copies by
// link. What it shows in a class is the median of its shortfalls over the rows of it, so that no single value of
// hundreds decides. Pure. The statistics are explained in docs/statistics.md.
#pragma once

#include <string>
#include <vector>

#include "thresholds/peers.hpp"
#include "thresholds/rank_telemetry.hpp"

namespace shakedown {

/// Puts the rows of `peers.comparisons` together to `peers.groups`, and marks the values that stand out there. The
/// telemetry tells a chip that power holds back from one that is slow.
void judge_groups(PeerComparison& peers, const RankTelemetry&);

/// "gemm" and "gemm/dtype:bf16": the classes of a row, the wider one first.
std::vector<std::string> classes_of(const std::string& key);

}  // namespace shakedown
