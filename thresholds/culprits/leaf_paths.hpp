// Finds slow uplinks of leaf switches, and slow paths between two leaf switches, in rounds of pairs. The functions are
// pure.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "thresholds/culprits/pair_rounds.hpp"

namespace shakedown {

struct LeafPaths {
  struct Path {
    std::pair<std::string, std::string> leaves;
    std::size_t rail = 0;
    double x = 0;  // median rate relative to the usual rate
  };
  std::vector<Path> paths;
  std::map<std::string, std::map<std::size_t, double>> uplinks;  // by leaf and rail: the relative rate
  std::size_t scattered = 0;  // paths that are slow, but not below the scatter of the pairs, or of one or two values
};

/// The minimum number of values for a statement about a leaf switch.
inline constexpr std::size_t min_values_of_leaf = 3;

/// Returns the slow uplinks and paths. Ignores pairs that are slow because of one end.
LeafPaths slow_between_leaves(const PairRounds&, const std::set<PairRounds::Place>& explained);

}  // namespace shakedown
