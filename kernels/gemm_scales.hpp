// The scale factors of fp8 products: which factor belongs to which element, and its place in memory. They are the same
// on all backends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/ops/gemm.hpp"
#include "kernels/reference.hpp"

namespace shakedown {

/// The scale factors of A, followed by those of B, as f32.
struct GemmScales {
  reference::FloatScales a, b;
  std::size_t b_begin = 0, count = 0;  // index of the first factor of B; number of factors with padding, 0 if all are 1
};

/// Returns the scale factors in the order of cuBLASLt (its documentation, "128-element 1D and 128x128 2D Block Scaling
/// For FP8 Data Types"). Factors of A and of B begin at multiples of 256 bytes. Errors: std::invalid_argument if the
/// type has none.
inline GemmScales gemm_scales(const GemmSpec& spec) {
  if (spec.scaling == Scaling::tensor) return {};
  if (spec.dtype != DType::fp8_e4m3) {
    throw std::invalid_argument("scale:" + std::string(name(spec.scaling)) + " is for fp8_e4m3, not for " +
                                std::string(name(spec.dtype)));
  }
  const auto m = static_cast<std::uint64_t>(spec.m), n = static_cast<std::uint64_t>(spec.n);
  const auto k = static_cast<std::uint64_t>(spec.k);
  const auto blocks = [](std::uint64_t extent) { return (extent + 127) / 128; };
  const auto rounded = [](std::uint64_t count, std::uint64_t to) { return (count + to - 1) / to * to; };
  constexpr unsigned all = 63, each = 0, of_128 = 7;
  constexpr std::uint64_t a = 1, b = 2;
  if (spec.scaling == Scaling::row) {
    const auto b_begin = rounded(m, 64);
    return {{a, each, all, 1, 0}, {b, each, all, 1, 0}, b_begin, b_begin + n};
  }
  const auto b_begin = rounded(m * blocks(k), 64), b_stride = rounded(blocks(k), 4);
  return {{a, each, of_128, 1, m}, {b, of_128, of_128, b_stride, 1}, b_begin, b_begin + b_stride * blocks(n)};
}

}  // namespace shakedown
