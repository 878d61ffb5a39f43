// A batch of operations that is captured once as a CUDA graph and then launched as a whole.
#pragma once

#include <functional>

#include "kernels/cuda/handle.hpp"

namespace shakedown::cuda {

class Recording {
 public:
  /// Captures `repeats` calls of `enqueue`, unless the graph already holds that number. Returns true if it captured.
  bool record(cudaStream_t, int repeats, const std::function<void()>& enqueue);

  /// Launches the graph. Errors: std::logic_error unless exactly `repeats` operations are recorded.
  void replay(cudaStream_t, int repeats) const;

 private:
  int repeats_ = 0;
  GraphExec graph_;
};

}  // namespace shakedown::cuda
