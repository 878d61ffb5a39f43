// Launchers of the kernels of a training step: everything that is neither a product nor attention. The semantics are
// those of kernels/transformer/ops.hpp. Sums are made in f32 or f64 in a fixed order, never by atomics on floats, so
// that the same inputs give the same bits. All are queued on the stream.
//
// Rows of bf16 begin at multiples of 16 bytes and have a multiple of 8 elements, unless said otherwise: kernels move 16
// bytes at a time.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/transformer/ops.hpp"

namespace shakedown::cuda {

using Bf16 = __nv_bfloat16;
using training::Matrix;

inline constexpr int vector_width = 8;  // bf16 in 16 bytes

// Layers --------------------------------------------------------------------------------------------------------------

using NormWeights = training::NormWeights<Bf16>;
using NormStatistics = training::NormStatistics<float>;
using NormGradient = training::NormGradient<float>;

/// LayerNorm; without shift and mean RMSNorm.
void norm(cudaStream_t, Matrix<const Bf16> x, const NormWeights&, float epsilon, Matrix<Bf16> n, const NormStatistics&);

/// Memory for partial sums of columns.
struct ColumnPartials {
  /// Floats that suffice for the fastest way of summing matrices of so many columns; with less it is slower.
  static std::size_t wanted(std::size_t columns);
  /// Two sums each of so many parts fit.
  std::size_t parts(std::size_t columns) const;

  float* at;
  std::size_t count;
};

/// `n` with null data: not wanted.
void norm_backward(cudaStream_t, Matrix<const Bf16> dn, Matrix<const Bf16> x, const NormWeights&, const NormStatistics&,
                   bool accumulate, Matrix<Bf16> dx, Matrix<Bf16> n, const NormGradient&, const ColumnPartials&);

/// The gradients of what a norm multiplies with and adds alone.
void norm_gradient(cudaStream_t, Matrix<const Bf16> dn, Matrix<const Bf16> x, const NormStatistics&,
                   const NormGradient&, const ColumnPartials&);
/// gradient = (accumulate ? gradient : 0) + the sum of `count` parts: of the gain the first so many rows of `partials`,
/// of the shift those that follow.
void add_parts(cudaStream_t, const ColumnPartials&, std::size_t count, std::size_t columns, const NormGradient&);
/// sums = (accumulate ? sums : 0) + the sum of the rows.
void sum_rows(cudaStream_t, Matrix<const Bf16> dy, bool accumulate, float* sums, const ColumnPartials&);

/// head_dim divides by 16.
void rope(cudaStream_t, Matrix<Bf16> qkv, const float* table, training::AttentionShape, training::Rotation);

void swiglu(cudaStream_t, Matrix<const Bf16> gate_up, Matrix<Bf16> h);
void swiglu_backward(cudaStream_t, Matrix<Bf16> gate_up, Matrix<Bf16> dh, bool emit_h);

void gelu(cudaStream_t, Matrix<const Bf16> u, Matrix<Bf16> h);
void gelu_backward(cudaStream_t, Matrix<Bf16> u, Matrix<Bf16> dh, bool emit_h);

/// `positions` with null data: none. A token below 0 has a row of zeros, and no gradient.
void embed(cudaStream_t, Matrix<const Bf16> table, const int* tokens, Matrix<const Bf16> positions, std::size_t seq,
           Matrix<Bf16> x);
void embed_backward(cudaStream_t, Matrix<const Bf16> dx, const int* tokens, const int* order, Matrix<float> d_table);
void copy_rows(cudaStream_t, Matrix<const Bf16> from, Matrix<Bf16> to);

// Loss ----------------------------------------------------------------------------------------------------------------

/// A row need not have a multiple of 8 elements; what stands behind it is left alone.
void cross_entropy(cudaStream_t, Matrix<Bf16> logits, const int* targets, float scale, float* losses);

/// Of the logits of a row that one rank has: the largest, the sum of exp of all less that, and that of the target, or
/// 0.
struct LogitPart {
  float max, sum, target;
};
/// Of all rows. A target below 0 is in another rank's part.
void logit_parts(cudaStream_t, Matrix<const Bf16> logits, const int* targets, LogitPart* parts);
/// As above, from the parts of so many ranks, those of each one behind those of the one before.
void cross_entropy(cudaStream_t, Matrix<Bf16> logits, const int* targets, float scale, float* losses,
                   const LogitPart* parts, int ranks);

/// *to += scale * the sum of all values, in f64.
void add_sum(cudaStream_t, const float* values, std::size_t count, double scale, double* to);

// Gradients and parameters --------------------------------------------------------------------------------------------

inline constexpr unsigned summarizing_blocks = 1024;
/// Summaries that summarize, and adamw of so many segments, need memory for beside their results.
std::size_t partials_needed(std::size_t segments);

/// Adds to *summary. `values` begin at a multiple of 16 bytes, `first` divides by 4.
void summarize(cudaStream_t, const float* values, std::size_t first, std::size_t count, training::Summary* partials,
               training::Summary* summary);
void summarize(cudaStream_t, const Bf16* values, std::size_t first, std::size_t count, training::Summary* partials,
               training::Summary* summary);

/// Where the bf16 copy of one part of the flat parameters stands: copy[r][c] = scale * parameters[offset + r cols + c].
/// Offsets and columns divide by 4.
struct Segment {
  std::size_t offset;
  Matrix<Bf16> copy;
  float scale;
  bool decays = true;
  std::size_t gradient_behind = 0;  // the gradient begins so many values behind `offset`
};

/// One update of the parameters of `count` segments (in device memory), and their copies;
/// nothing if the gradient's summary is not finite. Adds to *updated what the parameters are then.
void adamw(cudaStream_t, const Segment* segments, std::size_t count, const training::FlatState<float>&,
           const training::AdamW&, const training::Summary* gradient, training::Summary* partials,
           training::Summary* updated);

/// The copies alone.
void write_copies(cudaStream_t, const Segment* segments, std::size_t count, const float* parameters);

/// What travels between ranks in half of the bytes: to = from, each rounded; and back. `count` divides by 4, both begin
/// at multiples of 16 bytes.
void round_to_bf16(cudaStream_t, const float* from, Bf16* to, std::size_t count);
void widen_to_f32(cudaStream_t, const Bf16* from, float* to, std::size_t count);
/// to += from; likewise.
void add_f32(cudaStream_t, const float* from, float* to, std::size_t count);

/// What other ranks have, in memory of this one: that of the first other rank, `stride` values further that of the
/// next.
struct OfOthers {
  const float* values;
  std::size_t stride;
  int ranks, rank;  // and this one's
};
/// Where the summarizing_blocks of a sum leave what they have seen of values that are elements first.. of a larger
/// array, `first` divides by 4: of `mine`, of what `to` is then, and of theirs as they were added (the checksum). Null:
/// it is not asked.
struct Told {
  std::size_t first = 0;
  training::Summary *before = nullptr, *after = nullptr, *fetched = nullptr;
};
/// to = the sum over ranks, in their order, of `mine` and theirs, or that is added to it; likewise, with strides as
/// counts. `to` may be `mine`.
void sum_f32(cudaStream_t, const float* mine, const OfOthers&, float* to, std::size_t count, bool add,
             const Told& = {});
/// *to += all partials, in a fixed order.
void add_partials(cudaStream_t, const training::Summary* partials, std::size_t count, training::Summary* to);

// Data ----------------------------------------------------------------------------------------------------------------

/// Element (r, c) = stddev * reference::normal((tensor << 32) + numbers(first + r cols + c), 0), rounded. Any number of
/// columns.
void fill_normal(cudaStream_t, Matrix<Bf16>, double stddev, std::uint64_t tensor);
void fill_normal(cudaStream_t, Matrix<float>, double stddev, std::uint64_t tensor, std::size_t first = 0,
                 const training::Numbers& numbers = {});

}  // namespace shakedown::cuda
