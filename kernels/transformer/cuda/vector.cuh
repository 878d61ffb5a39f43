// Helpers of the training kernels: access to eight bf16 as one vector of 16 bytes, and sums over a block in a fixed
// order, so that equal inputs give equal bits.
#pragma once

#include <cuda_bf16.h>

#include <cstddef>
#include <cstdint>

#include "kernels/transformer/cuda/kernels.hpp"

namespace shakedown::cuda {

/// A matrix for use in kernels: row r begins at data + r * stride.
template <class T>
struct Rows {
  T* data;
  std::size_t stride;

  Rows(Matrix<T> matrix) : data(matrix.data), stride(matrix.stride) {}  // NOLINT: implicit, at every launch
  __device__ T* at(std::size_t row) const { return data + row * stride; }
};

/// Eight bf16 as floats. The address is a multiple of 16 bytes.
struct Eight {
  float at[vector_width];
};

__device__ inline Eight unpack(const uint4& raw) {
  const std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
  Eight values;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values.at[2 * i] = __uint_as_float(words[i] << 16);
    values.at[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000U);
  }
  return values;
}
__device__ inline uint4 load_packed(const __nv_bfloat16* from) { return *reinterpret_cast<const uint4*>(from); }
__device__ inline Eight load(const __nv_bfloat16* from) { return unpack(load_packed(from)); }

/// Rounds each value to nearest.
__device__ inline uint4 pack(const Eight& values) {
  std::uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(values.at[2 * i], values.at[2 * i + 1]);
    words[i] = *reinterpret_cast<const std::uint32_t*>(&pair);
  }
  return uint4{words[0], words[1], words[2], words[3]};
}
__device__ inline void store(__nv_bfloat16* to, const Eight& values) { *reinterpret_cast<uint4*>(to) = pack(values); }

__device__ inline float sum_warp(float mine) {
  for (int step = 16; step > 0; step /= 2) mine += __shfl_xor_sync(0xffffffffU, mine, step);
  return mine;
}

/// Combines the values of all threads of the block in a fixed order; every thread gets the result. All threads must
/// call it. Blocks consist of whole warps and have at most 1024 threads.
template <class T, class Combine>
__device__ T combine_block(T mine, T neutral, const Combine& combine) {
  __shared__ T of_warp[32];
  for (int step = 16; step > 0; step /= 2) mine = combine(mine, __shfl_xor_sync(0xffffffffU, mine, step));
  __syncthreads();  // of_warp may still be read from the last call
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  mine = threadIdx.x % 32 < blockDim.x / 32 ? of_warp[threadIdx.x % 32] : neutral;
  for (int step = 16; step > 0; step /= 2) mine = combine(mine, __shfl_xor_sync(0xffffffffU, mine, step));
  return mine;
}

template <class T>
__device__ T sum_block(T mine) {
  return combine_block(mine, T{0}, [](T a, T b) { return a + b; });
}

__device__ inline float max_block(float mine) {
  return combine_block(mine, -INFINITY, [](float a, float b) { return fmaxf(a, b); });
}

}  // namespace shakedown::cuda
