// How kernels walk over an array, as many blocks as help, each thread in strides of the whole grid; and how the threads
// of a block add up.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shakedown::cuda {

inline constexpr unsigned block = 256;

/// Enough blocks for one element per thread, but no more than fill any GPU of today several times.
inline unsigned blocks_for(std::size_t count) {
  return static_cast<unsigned>(std::clamp<std::size_t>((count + block - 1) / block, 1, 8192));
}

__device__ inline std::size_t first_index() { return static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline std::size_t stride() { return static_cast<std::size_t>(gridDim.x) * blockDim.x; }

/// Adds the values of all threads of the block and stores the sum, modulo 2^64: the same in whatever order. Called by
/// all of them, once, at the end of a kernel; blocks are whole warps, of 1024 threads at most.
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
