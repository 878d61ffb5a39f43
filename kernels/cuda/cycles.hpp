// At what clock the multiprocessors ran while operations were timed, from the GPU's own counters: cycles over
// nanoseconds. The driver renews what it says of the clock ten times a second only; this is right for a millisecond.
#pragma once

#include <optional>
#include <vector>

#include "kernels/cuda/gpu.hpp"

namespace shakedown::cuda {

class CycleCounter {
 public:
  explicit CycleCounter(const Gpu&);

  /// Queue the two ends of an interval on the GPU's stream, some 3 us each. Between them the GPU must be busy: what the
  /// counter of cycles does in an idle GPU is not documented. `operations` ran between them.
  void begin();
  void end(int operations);

  /// Over all intervals since the last call; starts anew. Nothing if there was none. Waits for the stream.
  std::optional<ClockCount> take();

 private:
  const Gpu& gpu_;
  std::vector<double> operations_;  // of each interval
  Buffer begins_, sums_;
};

}  // namespace shakedown::cuda
