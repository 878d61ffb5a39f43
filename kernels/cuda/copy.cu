// Copy through the SMs. A block takes tiles of threads x unroll vectors: neighbours load neighbouring vectors, and each
// thread has `unroll` independent loads in flight before it stores, which is what hides the latency of memory.
#include <algorithm>
#include <array>
#include <stdexcept>

#include "kernels/cuda/copy.hpp"
#include "kernels/cuda/handle.hpp"

namespace shakedown::cuda {

namespace {

template <bool streaming>
__device__ uint4 load(const uint4* from) {
  if constexpr (streaming) return __ldcs(from);
  return *from;
}

template <bool streaming>
__device__ void store(uint4* to, uint4 vector) {
  if constexpr (streaming) {
    __stcs(to, vector);
  } else {
    *to = vector;
  }
}

template <int unroll, bool streaming>
__global__ void __launch_bounds__(1024)
    copy_kernel(const uint4* __restrict__ from, uint4* __restrict__ to, std::size_t bytes) {
  const std::size_t vectors = bytes / sizeof(uint4);
  const std::size_t tile = static_cast<std::size_t>(blockDim.x) * unroll;
  const std::size_t tiles = vectors / tile;
  for (std::size_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const std::size_t begin = t * tile + threadIdx.x;
    uint4 held[unroll];
#pragma unroll
    for (int i = 0; i < unroll; ++i) held[i] = load<streaming>(from + begin + i * blockDim.x);
#pragma unroll
    for (int i = 0; i < unroll; ++i) store<streaming>(to + begin + i * blockDim.x, held[i]);
  }
  if (blockIdx.x + 1 != gridDim.x) return;
  // The last block also takes what is less than a tile, and what is less than a vector.
  for (std::size_t i = tiles * tile + threadIdx.x; i < vectors; i += blockDim.x) to[i] = from[i];
  const std::size_t i = vectors * sizeof(uint4) + threadIdx.x;
  if (i < bytes) reinterpret_cast<unsigned char*>(to)[i] = reinterpret_cast<const unsigned char*>(from)[i];
}

constexpr std::array shapes{
    CopyShape{512, 4, 0, true}, CopyShape{256, 4, 0, true},  CopyShape{1024, 4, 0, true},
    CopyShape{512, 8, 0, true}, CopyShape{512, 2, 0, true},  CopyShape{512, 4, 0, false},
    CopyShape{512, 4, 4, true}, CopyShape{1024, 2, 2, true}, CopyShape{512, 8, 2, true},
};

/// What the kernel needs: its last part is done by one thread per byte.
constexpr bool usable(const CopyShape& shape) {
  return shape.threads >= static_cast<int>(sizeof(uint4)) && shape.threads <= 1024;
}
static_assert(std::all_of(shapes.begin(), shapes.end(), usable));

using Kernel = void (*)(const uint4*, uint4*, std::size_t);

template <bool streaming>
Kernel kernel_for(int unroll) {
  switch (unroll) {
    case 2: return copy_kernel<2, streaming>;
    case 4: return copy_kernel<4, streaming>;
    case 8: return copy_kernel<8, streaming>;
    default: throw std::invalid_argument("copy: unroll must be 2, 4 or 8");
  }
}

}  // namespace

std::span<const CopyShape> copy_shapes() { return shapes; }

void copy(cudaStream_t stream, const void* from, void* to, std::size_t bytes, const CopyShape& shape,
          int multiprocessors) {
  const auto tile = static_cast<std::size_t>(shape.threads) * static_cast<std::size_t>(shape.unroll) * sizeof(uint4);
  const auto most = shape.blocks_per_sm == 0
                        ? std::size_t{1} << 30
                        : static_cast<std::size_t>(shape.blocks_per_sm) * static_cast<std::size_t>(multiprocessors);
  const auto blocks = static_cast<unsigned>(std::clamp(bytes / tile, std::size_t{1}, most));
  const auto kernel = shape.streaming ? kernel_for<true>(shape.unroll) : kernel_for<false>(shape.unroll);
  kernel<<<blocks, static_cast<unsigned>(shape.threads), 0, stream>>>(static_cast<const uint4*>(from),
                                                                      static_cast<uint4*>(to), bytes);
  check(cudaGetLastError());
}

}  // namespace shakedown::cuda
