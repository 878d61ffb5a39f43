// The kernel of the pointer chase.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace shakedown::cuda {

/// The last word of a walk over a chain (see chase.hpp) and the sum of all words. While the kernel runs, `turn` is the
/// index of the walker that may continue.
struct ChaseResult {
  std::uint64_t last, sum, turn;
};

/// Queues one walk over all `nodes` (a power of two) of the chain, one access after another, from node 0. The walk is
/// divided among multiprocessors. The distance of a multiprocessor from the links changes the latency by 7 % (H200: 803
/// to 866 ns), so the result is a mean over the chip, as in nvbandwidth.
void chase_pointers(cudaStream_t, const void* chain, std::size_t nodes, ChaseResult*, int multiprocessors);

}  // namespace shakedown::cuda
