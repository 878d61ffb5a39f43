// Combines runs of separate nodes into one run, so that their GPUs can be compared with each other. The functions are
// pure.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "thresholds/results/results.hpp"

namespace shakedown {

/// Combines the values by rank of runs that measured the same rows. Ranks get new numbers, and hosts keep their names.
/// Values of a whole run, and rows of all ranks together such as AllReduce, are omitted because they describe only
/// their own node.
class CombinedRun {
 public:
  /// Adds the files of one run. Files whose number of ranks differs from that of the first file are ignored.
  void add(const std::vector<Results>& run);

  std::size_t runs() const { return runs_; }

  /// Returns the combined run as a single file.
  std::vector<Results> results() &&;

 private:
  Results combined_;
  std::map<std::pair<Key, int>, std::size_t> index_;  // by key and repetition: the index of the row
  std::size_t runs_ = 0;
};

}  // namespace shakedown
