// Quantization to 8-bit floats with scale factors: the formulas for host and GPU, and the host's loops. A value is its
// 8-bit float times its factor. Hopper multiplies rows with one f32 factor each ("outer vectors" of cuBLASLt).
// Blackwell multiplies rows with a power of two for each 32 neighbours (OCP Microscaling Formats, 2023).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/reference.hpp"
#include "kernels/short_floats.hpp"
#include "kernels/transformer/ops.hpp"

namespace shakedown::training {

/// The factor of a row whose largest finite value has this size, so that it becomes the largest 8-bit float. 1 for a
/// row of zeros. It is never subnormal, because its inverse must be finite.
constexpr float row_scale(float largest, Float8 type) {
  if (largest == 0) return 1;
  constexpr float min_scale = 0x1p-126F;
  const float scale = largest / layout_of(type).largest;
  return scale < min_scale ? min_scale : scale;
}

/// A factor for rows whose values change. AdamW moves each adapter by at most its rate in a step, so that a row seldom
/// needs a larger factor. The precision of a float does not depend on it.
constexpr float roomy_scale(float largest, Float8 type) { return 1.25F * row_scale(largest, type); }

inline constexpr std::size_t scale_block = 32;  // number of neighbours that share a power of two

/// The exponent + 127 of the smallest power of two that is a factor for this size (E8M0), rounded up as cuBLAS does
/// (its documentation, "1D Block Quantization").
constexpr std::uint8_t block_scale(float largest, Float8 type) {
  const auto bits = std::bit_cast<std::uint32_t>(largest / layout_of(type).largest);
  const std::uint32_t exponent = bits >> 23, fraction = bits & 0x7fffffU;
  const std::uint32_t allowed = exponent == 0 ? 0x400000U : 0U;  // 2^-127 is subnormal in f32
  return static_cast<std::uint8_t>(exponent + (fraction > allowed ? 1 : 0));
}
/// Returns 2^(127 - code), the inverse of a factor.
constexpr float block_inverse(std::uint8_t code) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(254 - code) << 23);
}

/// Rounds a value times the inverse of its factor. Infinity becomes NaN, so that an overflow is not hidden.
inline std::uint8_t quantized(float value, float inverse, Float8 type) {
  return std::isfinite(value) ? to_float8(value * inverse, type) : float8_nan;
}

namespace detail {

template <class T>
float largest_size(const T* values, std::size_t count) {
  float largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(values[i]);
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

}  // namespace detail

/// Quantizes each row of x, with one factor for each.
template <class T>
void quantize_rows(Matrix<const T> x, Float8 type, Matrix<std::uint8_t> to, float* scales) {
  for (std::size_t r = 0; r < x.rows; ++r) {
    const T* const row = x.data + r * x.stride;
    scales[r] = row_scale(detail::largest_size(row, x.cols), type);
    const float inverse = 1 / scales[r];
    for (std::size_t c = 0; c < x.cols; ++c) {
      to.data[r * to.stride + c] = quantized(static_cast<float>(row[c]), inverse, type);
    }
  }
}

/// Quantizes each column of x, with one factor for each. The columns become the rows of `to`.
template <class T>
void quantize_transposed(Matrix<const T> x, Float8 type, Matrix<std::uint8_t> to, float* scales) {
  std::vector<T> column(x.rows);
  for (std::size_t c = 0; c < x.cols; ++c) {
    for (std::size_t r = 0; r < x.rows; ++r) column[r] = x.data[r * x.stride + c];
    quantize_rows(Matrix<const T>{column.data(), 1, x.rows, x.rows}, type, to.row_range(c, 1), scales + c);
  }
}

/// Quantizes the columns from `first` on again, with the factor of their row. If a value there needs a larger factor,
/// quantizes the whole row again, with a factor that leaves the values room to grow. A factor of 0 is too small for any
/// row.
template <class T>
void requantize_rows(Matrix<const T> x, std::size_t first, Float8 type, Matrix<std::uint8_t> to, float* scales) {
  for (std::size_t r = 0; r < x.rows; ++r) {
    const T* const row = x.data + r * x.stride;
    std::size_t begin = first;
    if (row_scale(detail::largest_size(row + first, x.cols - first), type) > scales[r]) {
      scales[r] = roomy_scale(detail::largest_size(row, x.cols), type);
      begin = 0;
    }
    for (std::size_t c = begin; c < x.cols; ++c) {
      to.data[r * to.stride + c] = quantized(static_cast<float>(row[c]), 1 / scales[r], type);
    }
  }
}

/// Does the same for the columns of x, whose rows from `first` on have changed. They become the rows of `to`.
template <class T>
void requantize_transposed(Matrix<const T> x, std::size_t first, Float8 type, Matrix<std::uint8_t> to, float* scales) {
  std::vector<T> column(x.rows);
  for (std::size_t c = 0; c < x.cols; ++c) {
    for (std::size_t r = 0; r < x.rows; ++r) column[r] = x.data[r * x.stride + c];
    requantize_rows(Matrix<const T>{column.data(), 1, x.rows, x.rows}, first, type, to.row_range(c, 1), scales + c);
  }
}

/// Quantizes each 32 neighbours in a row. The factors are in the order of reference::BlockScales; columns are a
/// multiple of 32.
template <class T>
void quantize_blocks(Matrix<const T> x, Float8 type, Matrix<std::uint8_t> to, std::uint8_t* scales) {
  const reference::BlockScales order{x.cols / scale_block};
  for (std::size_t r = 0; r < x.rows; ++r) {
    for (std::size_t b = 0; b < order.blocks; ++b) {
      const T* const block = x.data + r * x.stride + b * scale_block;
      const auto code = block_scale(detail::largest_size(block, scale_block), type);
      scales[order.place(r, b)] = code;
      for (std::size_t c = 0; c < scale_block; ++c) {
        to.data[r * to.stride + b * scale_block + c] =
            quantized(static_cast<float>(block[c]), block_inverse(code), type);
      }
    }
  }
}

}  // namespace shakedown::training
