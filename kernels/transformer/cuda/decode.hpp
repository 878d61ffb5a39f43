// Kernels for the decode of one token of one sequence (products) or of each sequence of a batch (attention). Where the
// GPU supports it, a kernel starts while the previous one still runs, loads the weights, keys and values that no kernel
// changes, and only then waits for the previous kernel.
#pragma once

#include "kernels/transformer/cuda/kernels.hpp"
#include "kernels/transformer/decode_ops.hpp"

namespace shakedown::cuda {

/// Properties of the GPU that the launches need.
struct DecodeGpu {
  int multiprocessors;
  std::size_t shared_bytes;  // of a block
  bool can_overlap;          // programmatic dependent launch, from compute capability 9.0 on
};

using DecodeProduct = training::DecodeProduct<Bf16>;
using DecodeAttention = training::DecodeAttention<Bf16, float>;

/// Queues a product with one row of X. Columns are a multiple of 16, and at most `widest_decoded`. Errors:
/// std::invalid_argument if they are not.
inline constexpr std::size_t widest_decoded = 20480, widest_normalized = 16384;
void multiply_row(cudaStream_t, const DecodeProduct&, const DecodeGpu&);

/// Returns the number of floats that `attend` needs for partial results.
std::size_t attention_partials(std::size_t batch, std::size_t heads, std::size_t head_dim, std::size_t context);
/// Queues attention. Heads have 128 or 16 columns, and at most 16 heads of queries share one head of keys and values.
/// Errors: std::invalid_argument if they do not.
void attend(cudaStream_t, const DecodeAttention&, float* partials, const DecodeGpu&);

}  // namespace shakedown::cuda
