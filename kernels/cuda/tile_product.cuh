// The kernel of tile products, with a parameter that tests use to plant faults.
//
// A block has 8 warps in 2 rows of 4; each warp computes 64 x 64 numbers of a 128 x 256 tile with mma.sync. A slab of A
// and B is in shared memory, so that the L2 cache does not limit the rate: see kernels/tile_product.hpp. Shared memory
// allows one block on each SM. The vectors of 16 bytes of a row are permuted (vector ^ row % 8), so that ldmatrix has
// no bank conflicts; the slabs in device memory have the same layout.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/tile_run.hpp"

namespace shakedown::cuda {

/// Returns numbers as the tensor cores computed them.
struct SoundSm {
  __device__ float operator()(float computed, unsigned /*sm*/, unsigned long long /*product*/,
                              unsigned /*word*/) const {
    return computed;
  }
};

namespace tile {

__device__ inline unsigned own_sm() {
  unsigned number;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
  return number;
}

/// Loads four 8 x 8 matrices; each lane gives the address of one row.
__device__ inline void load_matrices(unsigned (&to)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}

__device__ inline void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Copies a slab to shared memory. All threads of the block call it.
template <int depth>
__device__ void load_slab(unsigned shared, const uint4* from) {
  __syncthreads();  // all warps have read the last slab
  for (unsigned v = threadIdx.x; v < slab_bytes(depth) / 16; v += block_threads) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared + 16 * v), "l"(from + v));
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
}

/// Returns the address of the row and of the vector that this lane loads.
template <int depth>
__device__ unsigned address(unsigned shared, unsigned row, unsigned vector) {
  return shared + row * (2 * depth) + (vector ^ row % 8) * 16;
}

/// Multiplies each chunk of A by each chunk of B.
template <int depth>
__device__ void multiply(float (&sum)[4][8][4], unsigned shared) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned row_a = warp / 4 * 64 + lane % 16, row_b = tile_m + warp % 4 * 64 + lane / 16 * 8 + lane % 8;
  for (unsigned chunk_a = 0; chunk_a < depth / 16; ++chunk_a) {
    unsigned a[4][4];
#pragma unroll
    for (unsigned i = 0; i < 4; ++i)
      load_matrices(a[i], address<depth>(shared, row_a + 16 * i, 2 * chunk_a + lane / 16));
#pragma unroll 2
    for (unsigned chunk_b = 0; chunk_b < depth / 16; ++chunk_b) {
      unsigned b[4][4];
#pragma unroll
      for (unsigned j = 0; j < 4; ++j)
        load_matrices(b[j], address<depth>(shared, row_b + 16 * j, 2 * chunk_b + lane / 8 % 2));
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) {
#pragma unroll
        for (unsigned j = 0; j < 8; ++j) multiply_add(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
      }
    }
  }
}

/// Compares the numbers of this thread, and counts the wrong ones. Returns whether there were any.
template <class Sm>
__device__ bool compare(const float (&sum)[4][8][4], const TileRun& run, unsigned tile, unsigned long long product,
                        const Sm& sm) {
  const auto* const expected = reinterpret_cast<const float4*>(run.expected) + tile * tile_words / 4;
  const unsigned own = own_sm();
  unsigned wrong = 0, first = 0;
  float got = 0, want = 0;
#pragma unroll
  for (unsigned i = 0; i < 4; ++i) {
#pragma unroll
    for (unsigned j = 0; j < 8; ++j) {
      const float4 four = expected[(8 * i + j) * block_threads + threadIdx.x];
      const float wants[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (unsigned c = 0; c < 4; ++c) {
        const unsigned word = (8 * i + j) * 4 + c;
        const float number = sm(sum[i][j][c], own, product, word);
        if (number == wants[c]) continue;
        if (wrong++ == 0) first = word, got = number, want = wants[c];
      }
    }
  }
  if (wrong == 0) return false;
  SmRecord& record = run.records[own];
  atomicAdd(&record.wrong_words, static_cast<unsigned long long>(wrong));
  if (atomicExch(&record.has_first, 1U) == 0) {
    record.product = tile;
    record.word = first * block_threads + threadIdx.x;
    record.got = __float_as_uint(got);
    record.expected = __float_as_uint(want);
  }
  return true;
}

}  // namespace tile

template <int depth, class Sm>
__global__ void __launch_bounds__(block_threads, 1) tile_kernel(TileRun run, Sm sm) {
  extern __shared__ uint4 slab[];
  const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(slab));
  constexpr TileShape shape = tile_shape(depth);
  int loaded = -1;
  for (unsigned i = 0; i < run.products; ++i) {
    const auto product = run.first + i;
    const auto tile = static_cast<unsigned>((product + blockIdx.x) % TileShape::slabs);
    float sum[4][8][4] = {};
    for (int part = 0; part < shape.slabs_of_tile(); ++part) {
      const int next = shape.slab_of(static_cast<int>(tile), part);
      if (next != loaded)
        tile::load_slab<depth>(shared, run.slabs + static_cast<unsigned>(next) * (slab_bytes(depth) / 16));
      loaded = next;
      tile::multiply<depth>(sum, shared);
    }
    const bool wrong = __syncthreads_or(tile::compare(sum, run, tile, product, sm)) != 0;
    if (threadIdx.x != 0) continue;
    SmRecord& record = run.records[tile::own_sm()];
    atomicAdd(&record.products, 1ULL);
    if (wrong) atomicAdd(&record.wrong_products, 1ULL);
  }
}

/// Queues the products on one block for each SM.
template <class Sm>
cudaError_t launch_tiles(const TileRun& run, int depth, unsigned blocks, cudaStream_t stream, const Sm& sm) {
  auto* const kernel =
      depth == deep_slab_columns ? tile_kernel<deep_slab_columns, Sm> : tile_kernel<shallow_slab_columns, Sm>;
  const auto bytes = slab_bytes(depth);
  const auto status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (status != cudaSuccess) return status;
  kernel<<<blocks, block_threads, bytes, stream>>>(run, sm);
  return cudaGetLastError();
}

}  // namespace shakedown::cuda
