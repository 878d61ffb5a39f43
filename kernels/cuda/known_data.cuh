// Known data inside kernels: seeded normal numbers, and counters of a checking kernel.
#pragma once

#include <cstdint>

#include "kernels/cuda/gpu.hpp"
#include "kernels/cuda/grid.cuh"
#include "kernels/reference.hpp"

namespace shakedown::cuda {

/// This function has the same formula as reference::normal, whose host version cannot be called from kernels.
__device__ inline double normal(std::uint64_t i, std::uint64_t stream_id) {
  constexpr double scale = 1.0 / 9007199254740992.0;  // 2^-53
  const std::uint64_t bits = reference::mix(i ^ (stream_id << 56));
  const double u = (static_cast<double>(reference::mix(bits) >> 11) + 0.5) * scale;
  const double v = static_cast<double>(reference::mix(bits + 1) >> 11) * scale;
  return sqrt(-2.0 * log(u)) * cospi(2.0 * v);
}

/// One thread's part of a Tally.
struct LocalTally {
  unsigned long long compared = 0;
  unsigned long long mismatched = 0;
  unsigned long long first = no_index;
  float worst = 0;  // error as a fraction of its tolerance, if there is one

  __device__ void add(bool agrees, unsigned long long index) {
    ++compared;
    if (agrees) return;
    ++mismatched;
    if (index < first) first = index;
  }

  /// Adds the counters to `total`. Called by all threads of a warp together, once, at the end of the kernel.
  __device__ void add_to(Tally* total) const {
    auto count = compared, wrong = mismatched, lowest = first;
    auto largest = __float_as_uint(worst);  // positive floats have the same order as their bits
    for (int step = 16; step > 0; step /= 2) {
      count += __shfl_xor_sync(0xffffffffU, count, step);
      wrong += __shfl_xor_sync(0xffffffffU, wrong, step);
      const auto other = __shfl_xor_sync(0xffffffffU, lowest, step);
      if (other < lowest) lowest = other;
      largest = max(largest, __shfl_xor_sync(0xffffffffU, largest, step));
    }
    if (threadIdx.x % 32 != 0) return;
    atomicAdd(&total->compared, count);
    if (largest != 0) atomicMax(&total->worst, largest);
    if (wrong == 0) return;
    atomicAdd(&total->mismatched, wrong);
    atomicMin(&total->first, lowest);
  }
};

}  // namespace shakedown::cuda
