// How kernels walk over an array: as many blocks as help, each thread in strides of the whole grid.
#pragma once

#include <algorithm>
#include <cstddef>

namespace shakedown::cuda {

inline constexpr unsigned block = 256;

/// Enough blocks for one element per thread, but no more than fill any GPU of today several times.
inline unsigned blocks_for(std::size_t count) {
  return static_cast<unsigned>(std::clamp<std::size_t>((count + block - 1) / block, 1, 8192));
}

__device__ inline std::size_t first_index() { return static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline std::size_t stride() { return static_cast<std::size_t>(gridDim.x) * blockDim.x; }

}  // namespace shakedown::cuda
