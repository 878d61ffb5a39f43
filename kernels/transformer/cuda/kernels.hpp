// Launchers of the kernels of a training step: everything except products and attention. kernels/transformer/ops.hpp
// defines the semantics. Sums are computed in f32 or f64 in a fixed order, never with atomics on floats, so that equal
// inputs give equal bits. All kernels are queued on the stream.
//
// Rows of bf16 begin at multiples of 16 bytes and have a multiple of 8 elements, unless stated otherwise: kernels
// access 16 bytes at a time.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/gpu_sizes.hpp"
#include "kernels/transformer/ops.hpp"

namespace shakedown::cuda {

using Bf16 = __nv_bfloat16;
using training::Matrix;

inline constexpr int vector_width = 8;  // eight bf16 values have 16 bytes

// Layers --------------------------------------------------------------------------------------------------------------

using NormWeights = training::NormWeights<Bf16>;
using NormStatistics = training::NormStatistics<float>;
using NormGradient = training::NormGradient<float>;

/// A LayerNorm, or an RMSNorm if there is no shift and no mean.
void norm(cudaStream_t, Matrix<const Bf16> x, const NormWeights&, float epsilon, Matrix<Bf16> n, const NormStatistics&);

/// Memory for partial sums of columns.
struct ColumnPartials {
  /// Returns the number of floats for the fastest way to sum matrices with `columns` columns; less memory makes it
  /// slower.
  static std::size_t wanted(std::size_t columns, std::size_t most_parts);
  /// Returns the number of parts, with two sums each, that fit.
  std::size_t parts(std::size_t columns) const;

  float* at;
  std::size_t count;
  std::size_t most_parts;  // the column_parts of the GPU
};

/// Leaves out `n` if its data is null.
void norm_backward(cudaStream_t, Matrix<const Bf16> dn, Matrix<const Bf16> x, const NormWeights&, const NormStatistics&,
                   bool accumulate, Matrix<Bf16> dx, Matrix<Bf16> n, const NormGradient&, const ColumnPartials&);

/// Computes only the gradients of a norm's gain and shift.
void norm_gradient(cudaStream_t, Matrix<const Bf16> dn, Matrix<const Bf16> x, const NormStatistics&,
                   const NormGradient&, const ColumnPartials&);
/// gradient = (accumulate ? gradient : 0) + the sum of `count` parts. The parts of the gain are the first `count` rows
/// of `partials`; those of the shift follow.
void add_parts(cudaStream_t, const ColumnPartials&, std::size_t count, std::size_t columns, const NormGradient&);
/// sums = (accumulate ? sums : 0) + the sum of the rows.
void sum_rows(cudaStream_t, Matrix<const Bf16> dy, bool accumulate, float* sums, const ColumnPartials&);

/// head_dim must be a multiple of 16.
void rope(cudaStream_t, Matrix<Bf16> qkv, const float* table, training::AttentionShape, training::Rotation);

void swiglu(cudaStream_t, Matrix<const Bf16> gate_up, Matrix<Bf16> h);
void swiglu_backward(cudaStream_t, Matrix<Bf16> gate_up, Matrix<Bf16> dh, bool emit_h);

void gelu(cudaStream_t, Matrix<const Bf16> u, Matrix<Bf16> h);
void gelu_backward(cudaStream_t, Matrix<Bf16> u, Matrix<Bf16> dh, bool emit_h);

/// If the data of `positions` is null, there are no positions. A token below 0 gets a row of zeros and no gradient.
void embed(cudaStream_t, Matrix<const Bf16> table, const int* tokens, Matrix<const Bf16> positions, std::size_t seq,
           Matrix<Bf16> x);
void embed_backward(cudaStream_t, Matrix<const Bf16> dx, const int* tokens, const int* order, Matrix<float> d_table);
void copy_rows(cudaStream_t, Matrix<const Bf16> from, Matrix<Bf16> to);

// Loss ----------------------------------------------------------------------------------------------------------------

/// The number of columns need not be a multiple of 8. Memory after the row is not changed.
void cross_entropy(cudaStream_t, Matrix<Bf16> logits, const int* targets, float scale, float* losses);

/// Summary of the part of a row of logits on one rank: the maximum, the sum of exp(logit - maximum), and the target's
/// logit, or 0 if the target is elsewhere.
struct LogitPart {
  float max, sum, target;
};
/// Computes the parts of all rows. A target below 0 belongs to another rank's part.
void logit_parts(cudaStream_t, Matrix<const Bf16> logits, const int* targets, LogitPart* parts);
/// Computes losses and gradients of logits from the parts of `ranks` ranks, stored rank after rank.
void cross_entropy(cudaStream_t, Matrix<Bf16> logits, const int* targets, float scale, float* losses,
                   const LogitPart* parts, int ranks);

/// *to += scale * the sum of all values, in f64.
void add_sum(cudaStream_t, const float* values, std::size_t count, double scale, double* to);

// Gradients and parameters --------------------------------------------------------------------------------------------

inline constexpr unsigned summarizing_blocks = 1024;
/// Returns the number of temporary summaries that summarize, and adamw with `segments` segments, need.
std::size_t partials_needed(std::size_t segments);

/// Adds the sums over `count` values from index `first` on to *summary. `values` begins at a multiple of 16 bytes;
/// `first` is a multiple of 4.
/// Where f64 is slow, each thread sums in two floats (kernels/transformer/wide_sums.hpp).
void summarize(cudaStream_t, const float* values, std::size_t first, std::size_t count, training::Summary* partials,
               training::Summary* summary, F64 = F64::fast);
void summarize(cudaStream_t, const Bf16* values, std::size_t first, std::size_t count, training::Summary* partials,
               training::Summary* summary, F64 = F64::fast);

/// Location of the bf16 copy of a part of the flat parameters: copy[r][c] = scale * parameters[offset + r cols + c].
/// Offsets and columns are multiples of 4.
struct Segment {
  std::size_t offset;
  Matrix<Bf16> copy;
  float scale;
  bool decays = true;
  std::size_t gradient_behind = 0;  // distance in values from `offset` to the gradient
  std::size_t position = 0;         // of its first value in the model, a multiple of 4
};

/// Updates the parameters of `count` segments (in device memory) and their copies; does nothing if the gradient's
/// summary is not finite. Adds a summary of the updated parameters to *updated.
void adamw(cudaStream_t, const Segment* segments, std::size_t count, const training::FlatState<float>&,
           const training::AdamW&, const training::Summary* gradient, training::Summary* partials,
           training::Summary* updated);

/// Does the same with a state in bf16, whose parameters have no copies.
void adamw(cudaStream_t, const Segment* segments, std::size_t count, const training::Bf16State<Bf16, float>&,
           const training::AdamW&, const training::Summary* gradient, training::Summary* partials,
           training::Summary* updated);

/// Writes only the copies.
void write_copies(cudaStream_t, const Segment* segments, std::size_t count, const float* parameters);

/// Convert values for a transfer between ranks with half the bytes: to = from, each value rounded to bf16; and back.
/// `count` is a multiple of 4; both pointers are multiples of 16 bytes.
void round_to_bf16(cudaStream_t, const float* from, Bf16* to, std::size_t count);
void widen_to_f32(cudaStream_t, const Bf16* from, float* to, std::size_t count);
/// to += from, with the same requirements.
void add_f32(cudaStream_t, const float* from, float* to, std::size_t count);

/// Values of other ranks in memory of this one; those of the next rank begin `stride` values after those of the
/// previous.
struct OfOthers {
  const float* values;
  std::size_t stride;
  int ranks, rank;  // the number of ranks, and the index of this one
};
/// Destinations of the partial summaries that the summarizing_blocks blocks of a sum write. `first` is the index of the
/// first value in a larger array, a multiple of 4. The summaries are of `mine`, of `to` afterwards, and of the other
/// ranks' values as they were added (the checksum). Null: not wanted.
struct Told {
  std::size_t first = 0;
  training::Summary *before = nullptr, *after = nullptr, *fetched = nullptr;
};
/// Computes to = the sum of `mine` and the other ranks' values, in the order of ranks, or adds it to `to`. `count` and
/// the strides have the same requirements as above. `to` may be `mine`.
void sum_f32(cudaStream_t, const float* mine, const OfOthers&, float* to, std::size_t count, bool add, const Told& = {},
             F64 = F64::fast);
/// *to += all partials, in a fixed order.
void add_partials(cudaStream_t, const training::Summary* partials, std::size_t count, training::Summary* to);

// Data ----------------------------------------------------------------------------------------------------------------

/// Sets element (r, c) = stddev * reference::normal((tensor << 32) + numbers(first + r cols + c), 0), rounded. Any
/// number of columns.
void fill_normal(cudaStream_t, Matrix<Bf16>, double stddev, std::uint64_t tensor);
void fill_normal(cudaStream_t, Matrix<float>, double stddev, std::uint64_t tensor, std::size_t first = 0,
                 const training::Numbers& numbers = {});

}  // namespace shakedown::cuda
