// Grid-stride loops over arrays, and sums over the threads of a block.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shakedown::cuda {

inline constexpr unsigned block = 256;

/// Returns enough blocks for one element per thread, up to a limit that fills any current GPU several times.
inline unsigned blocks_for(std::size_t count) {
  return static_cast<unsigned>(std::clamp<std::size_t>((count + block - 1) / block, 1, 8192));
}

__device__ inline std::size_t first_index() { return static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline std::size_t stride() { return static_cast<std::size_t>(gridDim.x) * blockDim.x; }

/// Adds the values of all threads of the block and stores the sum, modulo 2^64; it does not depend on the order. All
/// threads call it once at the end of a kernel. Blocks consist of whole warps and have at most 1024 threads.
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
