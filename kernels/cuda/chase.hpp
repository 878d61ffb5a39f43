// The kernel of the pointer chase.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace shakedown::cuda {

/// Where a walk over a chain of chase.hpp ended, and what it added up. `turn`: which walker may go on, while it runs.
struct ChaseResult {
  std::uint64_t last, sum, turn;
};

/// Queues one walk over all `nodes` (a power of two) of the chain, one access after another, from node 0. It goes on
/// from multiprocessor to multiprocessor: how far one is from the links makes 7 % of the latency (H200: 803 to 866 ns),
/// so that the figure is a mean over all of the chip, as nvbandwidth's is.
void chase_pointers(cudaStream_t, const void* chain, std::size_t nodes, ChaseResult*, int multiprocessors);

}  // namespace shakedown::cuda
