// A GPU, or the copies from one GPU to another, judged by classes of rows: GEMM by type, HBM by direction, copies by
// link. What it shows in a class is the median of its shortfalls over the rows of it, so that no single value of
// hundreds decides. Pure. The statistics are explained in docs/statistics.md.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "thresholds/peers.hpp"
#include "thresholds/rank_telemetry.hpp"
#include "thresholds/results.hpp"

namespace shakedown {

/// Puts the rows of `peers.comparisons` together to `peers.groups`, and marks the values that stand out there. The
/// telemetry tells a chip that power holds back from one that is slow.
void judge_groups(PeerComparison& peers, const RankTelemetry&);

/// "gemm" and "gemm/dtype:bf16": the classes of a row, the wider one first.
std::vector<std::string> classes_of(const std::string& key);

/// Of rows that were measured once (what ranks have by key and repetition), those in which a value that no other row of
/// its class confirms is lower than half way from what several must be to what one must be (of memory: than what one
/// must be; of what no accident changes that much, as clocks and the latency of links: than half of it), and by more
/// than `at_least`; and those in which a GPU multiplies or reads a tenth slower than in the other rows of the class. It
/// may be an accident or a fault: measured until it is no single value any more, it is a fault if it stays.
std::vector<std::string> to_measure_again(const std::map<std::string, std::vector<RankData>>&, double at_least);

/// So many repetitions, of which the median is taken, are no single value.
inline constexpr std::size_t enough_repetitions = 3;

}  // namespace shakedown
