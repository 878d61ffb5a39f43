// How the threads of a checking kernel count together.
#pragma once

#include "kernels/cuda/tally.hpp"

namespace shakedown::cuda {

/// One thread's share of a Tally.
struct LocalTally {
  unsigned long long compared = 0;
  unsigned long long mismatched = 0;
  unsigned long long first = no_index;
  float worst = 0;  // error as a part of its tolerance, where there is one

  __device__ void add(bool agrees, unsigned long long index) {
    ++compared;
    if (agrees) return;
    ++mismatched;
    if (index < first) first = index;
  }

  /// Called by all threads of a warp together, once, at the end of the kernel.
  __device__ void add_to(Tally* total) const {
    auto count = compared, wrong = mismatched, lowest = first;
    auto largest = __float_as_uint(worst);  // floats above zero are ordered as their bits
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
