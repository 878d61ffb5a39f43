// A batch of operations that is recorded once, as a CUDA graph, and then launched as a whole.
#pragma once

#include <functional>

#include "kernels/cuda/handle.hpp"

namespace shakedown::cuda {

class Recording {
 public:
  /// Records so many calls of `enqueue`, unless that is what it holds already. True if it recorded.
  bool record(cudaStream_t, int repeats, const std::function<void()>& enqueue);

  /// Errors: std::logic_error unless just so many operations are recorded.
  void replay(cudaStream_t, int repeats) const;

 private:
  int repeats_ = 0;
  GraphExec graph_;
};

}  // namespace shakedown::cuda
