// Seeded normal numbers on the GPU: reference::normal written out again, because the host's is not for kernels.
#pragma once

#include <cstdint>

#include "kernels/reference.hpp"

namespace shakedown::cuda {

__device__ inline double normal(std::uint64_t i, std::uint64_t stream_id) {
  constexpr double scale = 1.0 / 9007199254740992.0;  // 2^-53
  const std::uint64_t bits = reference::mix(i ^ (stream_id << 56));
  const double u = (static_cast<double>(reference::mix(bits) >> 11) + 0.5) * scale;
  const double v = static_cast<double>(reference::mix(bits + 1) >> 11) * scale;
  return sqrt(-2.0 * log(u)) * cospi(2.0 * v);
}

}  // namespace shakedown::cuda
