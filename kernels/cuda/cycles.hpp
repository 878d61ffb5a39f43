// Measures the clock of the multiprocessors while operations are timed, from the GPU's own counters: cycles divided by
// nanoseconds. The clock that the driver reports is updated only ten times a second; these counters are accurate over a
// millisecond.
#pragma once

#include <optional>
#include <vector>

#include "kernels/cuda/gpu.hpp"

namespace shakedown::cuda {

class CycleCounter {
 public:
  explicit CycleCounter(const Gpu&);

  /// Queue the two ends of an interval on the GPU's stream; each takes some 3 us. The GPU must be busy between them:
  /// the behaviour of the cycle counter on an idle GPU is not documented. `operations` is the number that ran between
  /// them.
  void begin();
  void end(int operations);

  /// Returns the counts over all intervals since the last call, and resets them. Returns nullopt if there were none.
  /// Waits for the stream.
  std::optional<ClockCount> take();

 private:
  const Gpu& gpu_;
  std::vector<double> operations_;  // the number of operations in each interval
  Buffer begins_, sums_;
};

/// Loads a kernel. Returns the seconds that the driver took to compile it and the kernels next to it from PTX; 0 if the
/// program has machine code for this GPU.
double seconds_of_jit();

}  // namespace shakedown::cuda
