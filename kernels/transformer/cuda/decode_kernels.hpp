// Kernels for the decode of one token of one sequence (products, sums over ranks) or of each sequence of a batch
// (attention). Where the GPU supports it, a kernel starts while the previous one still runs, loads the weights, keys
// and values that no kernel changes, and only then waits for the previous kernel.
#pragma once

#include "kernels/transformer/cuda/kernels.hpp"
#include "kernels/transformer/decode_ops.hpp"
#include "kernels/transformer/parameters.hpp"

namespace shakedown::cuda {

/// Properties of the GPU that the launches need.
struct DecodeGpu {
  int multiprocessors;
  std::size_t shared_bytes;  // of a block
  bool can_overlap;          // programmatic dependent launch, from compute capability 9.0 on
};

/// Does the same as fill_normal of kernels.hpp for a part of a matrix, whose elements have these numbers.
void fill_normal(cudaStream_t, Matrix<Bf16>, double stddev, std::uint64_t tensor, const training::Numbers&);

using DecodeProduct = training::DecodeProduct<Bf16>;
using DecodeAttention = training::DecodeAttention<Bf16, float>;

/// Queues a product with one row of X. Columns are a multiple of 16, and at most `max_decoded_columns`. Errors:
/// std::invalid_argument if they are not.
inline constexpr std::size_t max_decoded_columns = 28672;
void multiply_row(cudaStream_t, const DecodeProduct&, const DecodeGpu&);

/// Returns the number of floats that `attend` needs for partial results.
std::size_t attention_partials(std::size_t batch, std::size_t heads, std::size_t head_dim, std::size_t context);
/// Queues attention. Heads have 128 or 16 columns, and at most 16 heads of queries share one head of keys and values.
/// Errors: std::invalid_argument if they do not.
void attend(cudaStream_t, const DecodeAttention&, float* partials, const DecodeGpu&);

/// Memory for sums over the ranks of one host. to[d - 1] is memory of the rank at distance d after this one, in which
/// no other rank writes, and from[d - 1] is memory of this rank, in which the rank at distance d before it writes.
struct Mailboxes {
  static constexpr int most_ranks = 16;
  uint4 *to[most_ranks - 1] = {}, *from[most_ranks - 1] = {};
  // Of the last sum, for each block; then 1 if a rank did not answer. Zero at the beginning, as all mailboxes.
  unsigned* numbers = nullptr;
  int ranks = 1, rank = 0;
};
/// Return the bytes of one mailbox, and the length of `numbers`, for sums of `count` values.
std::size_t mailbox_bytes(std::size_t count);
std::size_t mailbox_numbers(std::size_t count);
/// Queues the sum of `count` values, a multiple of 4, over all ranks. All sums with these mailboxes have this count.
void add_up(cudaStream_t, const Bf16* own, Bf16* all, std::size_t count, const Mailboxes&, const DecodeGpu&);

}  // namespace shakedown::cuda
