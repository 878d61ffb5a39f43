// Judges scaling: the fraction of its rate that a GPU keeps with more nodes, or with more ranks of one node. The
// functions are pure.
//
// Efficiency is relative to the smallest launch: one node, or the fewest ranks of one node.
//   training step   tokens/s per GPU of the slowest rank, over the same on one node
//   AllReduce       bus bandwidth of the largest size, over the bandwidth that m nodes should have. This is the smaller
//   of
//                   one node's bandwidth and of the limit of the NICs (fabric_rates.hpp). If the rate of the NICs is
//                   unknown, it follows by the same formula from the launch with the fewest nodes above one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "thresholds/findings/finding.hpp"
#include "thresholds/results/measured.hpp"

namespace shakedown {

/// One launch of the run.
struct ScalingSet {
  std::optional<int> asked_hosts = std::nullopt;  // number of nodes that were requested; nullopt: the measured ones
  std::vector<std::string> lost = {};             // nodes whose loss ended the launch
  std::vector<Results> files = {};
};

/// One figure in one launch.
struct ScalingPoint {
  std::string key, metric;
  int hosts = 1, ranks = 1;
  double value = 0;
  std::optional<double> efficiency = std::nullopt;
  std::string limited_by = "";
};

struct ScalingJudgement {
  std::vector<ScalingPoint> points;  // sorted by key, and then by size
  std::vector<Finding> findings;
};

/// Judges the scaling. `sets` can be in any order. `host_gb_per_s` is the rate of the NICs of one node; nullopt if
/// unknown. Within one node the largest number of ranks is judged; between nodes each number is. Errors: InputError if
/// there are fewer than two numbers of ranks, or no common benchmark. If nodes were requested, a missing benchmark is a
/// finding instead.
ScalingJudgement judge_scaling(const std::vector<ScalingSet>& sets, std::optional<double> host_gb_per_s = std::nullopt);

}  // namespace shakedown
