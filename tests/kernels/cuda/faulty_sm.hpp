// Tile products with a fault of one SM, for tests. The kernel is that of the product, with a faulty reading of its
// numbers.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/tile_run.hpp"

namespace shakedown::cuda {

/// A fault as published studies of silent data corruption describe it: in one of 1 / rate products, one warp has wrong
/// numbers in lanes at equal distances. Four of ten wrong numbers have one wrong bit, and the others have two to four.
struct FaultySm {
  static constexpr unsigned every = ~0U;  // as `sm`: all SMs have the fault

  unsigned sm;
  float rate;
  unsigned long long seed;

  __host__ __device__ static unsigned long long mix(unsigned long long x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }
  /// True if this product of the SM has wrong numbers.
  __host__ __device__ bool strikes(unsigned long long product) const {
    return static_cast<float>(mix((product + 1) * 0x9e3779b97f4a7c15ULL + seed) >> 40) < rate * 16777216.0F;
  }
#ifdef __CUDACC__
  __device__ float operator()(float computed, unsigned own, unsigned long long product, unsigned word) const {
    if ((own != sm && sm != every) || !strikes(product)) return computed;
    const auto of_product = mix(product * 3 + seed + 7);
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, distance = 1U << of_product % 5;
    if (warp != of_product / 8 % 8 || lane % distance != 0 || word != of_product / 64 % 128) return computed;
    const auto of_word = mix(of_product + lane);
    unsigned bits = 1U << of_word % 32;
    if (of_word / 32 % 10 >= 4) {
      for (unsigned more = 0; more < 1 + of_word / 512 % 3; ++more) bits |= 1U << (of_word >> (20 + 6 * more)) % 32;
    }
    return __uint_as_float(__float_as_uint(computed) ^ bits);
  }
#endif
};

cudaError_t launch_faulty_tiles(const TileRun&, int depth, unsigned blocks, cudaStream_t, const FaultySm&);

}  // namespace shakedown::cuda
