// A GPU, or the copies from one GPU to another, judged by classes of rows: GEMM by type, HBM by direction and engine,
// copies by link and by the GPU at either end. What it shows in a class is the median of its shortfalls over the rows
// of it, so that no single value of hundreds decides. Pure. The statistics are explained in docs/statistics.md.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "thresholds/findings/peer_comparison.hpp"
#include "thresholds/findings/rank_telemetry.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown {

/// Puts the rows of `peers.comparisons` together to `peers.groups`, and marks the values that stand out there. The
/// telemetry tells a chip that power holds back from one that is slow.
void judge_groups(PeerComparison& peers, const RankTelemetry&);

/// "gemm" and "gemm/dtype:bf16": the classes of a row, the widest first.
std::vector<Key> classes_of(const Key&);

/// One metric of a class.
struct ClassMetric {
  Key name;  // of the class
  std::string metric;

  friend auto operator<=>(const ClassMetric&, const ClassMetric&) = default;
};

/// Whom a value says something about.
struct ClassUnit {
  int rank = 0;
  std::optional<int> from;  // of a link: whose data it is

  friend auto operator<=>(const ClassUnit&, const ClassUnit&) = default;
};

/// In this class, of a value that stands at `rank`: the rank, the link that leads to it, or, in a class of copies by
/// one end ("end:src", "end:dst"), the GPU at that end.
ClassUnit unit_of(const Key& name, int rank, std::optional<int> from);

/// Of sorted shortfalls, how many are those of the healthy where half of all are slow, or more: there are two groups
/// then, further apart than `effect` and than either is wide. All of them where there is one. One fast GPU is no group.
std::size_t better_group(const std::vector<double>& sorted, double effect);

/// The key of a row with that of the other ranks, where each works by itself: "active:one/rank:*".
Key of_each_rank(const Key&);

}  // namespace shakedown
