// The kernel of the pointer chase.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace shakedown::cuda {

/// Where a walk over a chain of chase.hpp ended, and what it added up.
struct ChaseResult {
  std::uint64_t last, sum;
};

/// Queues one walk over all `nodes` (a power of two) of the chain, one access after another, from node 0.
void chase_pointers(cudaStream_t, const void* chain, std::size_t nodes, ChaseResult*);

}  // namespace shakedown::cuda
