// Kernels that quantize rows of bf16 to 8-bit floats (kernels/transformer/quantize.hpp), alone or together with the
// operation that computes the rows. Results have the same bits as those of the host from the same rows.
#pragma once

#include <cstdint>

#include "kernels/short_floats.hpp"
#include "kernels/transformer/cuda/kernels.hpp"

namespace shakedown::cuda {

/// The widest row, which one block of threads keeps in registers.
inline constexpr std::size_t max_quantized_columns = 65536;

/// The destination of quantized rows; each begins at a multiple of 8 bytes. `row_scales` gets one f32 for each row;
/// otherwise `block_scales` gets one byte for each 32 neighbours, in the order of reference::BlockScales.
struct Quantized {
  Matrix<std::uint8_t> values;
  float* row_scales = nullptr;
  std::uint8_t* block_scales = nullptr;
  Float8 type = Float8::e4m3;
};

inline Quantized quantized(const training::QuantizedRows& rows) {
  return {rows.values, rows.scales, nullptr, rows.type};
}

/// Errors of those that take rows: std::invalid_argument if a row is wider than widest_quantized, or has no whole
/// vectors or blocks.
void quantize(cudaStream_t, Matrix<const Bf16> x, const Quantized&);
/// The same as training::requantize_rows and training::requantize_transposed, for rows of any width. `first` of
/// requantize is a multiple of 8, as are the columns of both.
void requantize(cudaStream_t, Matrix<const Bf16> x, std::size_t first, const Quantized&);
void requantize_transposed(cudaStream_t, Matrix<const Bf16> x, std::size_t first, const Quantized&);
/// The same as training::quantize_transposed, for columns of any height; rows and columns are multiples of 8.
/// Errors: std::invalid_argument otherwise.
void quantize_transposed(cudaStream_t, Matrix<const Bf16> x, const Quantized&);
/// Quantizes the rows that gelu(u) would write.
void quantize_gelu(cudaStream_t, Matrix<const Bf16> u, const Quantized&);
/// Quantizes the norm of x, which is rounded to bf16 before. It writes the statistics, too.
void quantize_norm(cudaStream_t, Matrix<const Bf16> x, const NormWeights&, float epsilon, const NormStatistics&,
                   const Quantized&);

}  // namespace shakedown::cuda
