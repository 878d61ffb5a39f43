// How the threads of a block add up, modulo 2^64: the same in whatever order.
#pragma once

#include <cstdint>

namespace shakedown::cuda {

/// Adds the values of all threads of the block and stores the sum. Called by all of them, once, at the end of a kernel;
/// blocks are whole warps, of 1024 threads at most.
__device__ inline void store_block_sum(std::uint64_t mine, std::uint64_t* to) {
  __shared__ std::uint64_t of_warp[32];
  for (int step = 16; step > 0; step /= 2) mine += __shfl_xor_sync(0xffffffffU, mine, step);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x != 0) return;
  std::uint64_t sum = 0;
  for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) sum += of_warp[warp];
  *to = sum;
}

}  // namespace shakedown::cuda
