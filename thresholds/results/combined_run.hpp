// Runs of separate nodes as one run, so that their GPUs can be compared with each other. Pure.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "thresholds/results/results.hpp"

namespace shakedown {

/// Combines the values by rank of runs that measured the same rows. Ranks are renumbered and hosts are kept. A row of
/// all ranks together, such as AllReduce, describes its own node only and is left out, as are values of the whole run.
class CombinedRun {
 public:
  /// Adds the files of one run. Files of another number of ranks than the first are left out.
  void add(const std::vector<Results>& run);

  std::size_t runs() const { return runs_; }

  /// Returns the files of the combined run. It has one file.
  std::vector<Results> results() &&;

 private:
  Results combined_;
  std::map<std::pair<Key, int>, std::size_t> index_;  // row by key and repetition
  std::size_t runs_ = 0;
};

}  // namespace shakedown
