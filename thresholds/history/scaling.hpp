// The judgement by other launches of the same run: what more nodes, or more ranks of one node, leave to each GPU. Pure.
//
// Efficiency is defined against the smallest launch: one node, or the fewest ranks of one.
//   training step   tokens/s per GPU, as the slowest rank has them, over the same on one node
//   AllReduce       bus bandwidth of the largest size over what is expected on m nodes: the lesser of one node's and of
//                   what the NICs allow (fabric_rates.hpp); where no rate of NICs is known, of what the fewest nodes
//                   beyond one reached, by the same formula
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
