// Launchers of the kernels of a training step, everything that is neither a product nor attention. Activations are bf16,
// row by row, one row per token; sums are made in f32 or f64 in a fixed order, never by atomics, so that the same inputs
// give the same bits. All are queued on the stream.
//
// Rows start at multiples of 16 bytes and their lengths divide by 8 (a vector of 16 bytes), unless said otherwise;
// what does not is refused with std::invalid_argument.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace shakedown::cuda {

using Bf16 = __nv_bfloat16;

/// Rows of a matrix that may be part of a wider one: row r begins at data + r * stride.
template <class T>
struct Rows {
  T* data = nullptr;
  std::size_t stride = 0;  // elements from row to row

  __host__ __device__ T* at(std::size_t row) const { return data + row * stride; }
  template <class U>
  operator Rows<U>() const  // NOLINT: implicit, as T* becomes const T*
    requires(std::is_same_v<U, const T> && !std::is_const_v<T>)
  {
    return {data, stride};
  }
  explicit operator bool() const { return data != nullptr; }
};

// Layers --------------------------------------------------------------------------------------------------------------

/// out = x * rstd * weight with rstd = 1 / sqrt(mean(x^2) + epsilon) of each row, which is stored too.
void rmsnorm(cudaStream_t, Rows<const Bf16> x, const Bf16* weight, Rows<Bf16> out, float* rstd, int rows, int columns,
             float epsilon);

/// The gradient of rmsnorm with respect to x, added to dx: with g = dout * weight,
/// dx += rstd * (g - x * rstd^2 * mean(g * x)). Where `out` is given, the output of rmsnorm is written there again.
void rmsnorm_backward(cudaStream_t, Rows<const Bf16> dout, Rows<const Bf16> x, const Bf16* weight, const float* rstd,
                      Rows<Bf16> dx, Rows<Bf16> out, int rows, int columns);

/// cos and sin of position / theta^(2 i / head_size), for i below head_size / 2: table[position][i] = {cos, sin}.
void make_rope_table(cudaStream_t, float2* table, int positions, int head_size, float theta);

/// Rotates the first `heads` heads of each row in place, element i of a head with element i + head_size / 2 (the
/// convention of Llama and Qwen checkpoints); row r stands at position r mod positions. `backward` rotates back.
/// head_size / 2 need not divide by 8.
void rope(cudaStream_t, Rows<Bf16> x, const float2* table, int rows, int positions, int heads, int head_size,
          bool backward);

/// h = silu(gate) * up, where a row of gate_up is the gate's `columns` elements and then the up's.
void swiglu(cudaStream_t, Rows<const Bf16> gate_up, Rows<Bf16> h, int rows, int columns);

/// Gradients of swiglu take the place of its inputs, and h is computed again. h may be dh's own memory.
void swiglu_backward(cudaStream_t, Rows<Bf16> gate_up, Rows<const Bf16> dh, Rows<Bf16> h, int rows, int columns);

/// x[r] = table[tokens[r]].
void embed(cudaStream_t, const std::int32_t* tokens, Rows<const Bf16> table, Rows<Bf16> x, int rows, int columns);

/// Copies part of each row.
void copy_rows(cudaStream_t, Rows<const Bf16> from, Rows<Bf16> to, int rows, int columns);

// Loss ----------------------------------------------------------------------------------------------------------------

/// loss[r] = log(sum(exp(logits[r]))) - logits[r][targets[r]], and in place of the logits their gradient
/// scale * (softmax - one at the target). `columns` need not divide by 8; what stands behind them is left alone.
void cross_entropy(cudaStream_t, Rows<Bf16> logits, const std::int32_t* targets, float* loss, int rows, int columns,
                   float scale);

/// *sum = the sum of all values, in f64.
void sum_values(cudaStream_t, const float* values, std::size_t count, double* sum);

// Optimizer -----------------------------------------------------------------------------------------------------------

/// Blocks of add_squares, and so the doubles that it needs.
inline constexpr int partial_sums = 1024;

/// *sum = the sum of the squares of all values, in f64. `partials` is memory for partial_sums doubles. The values begin
/// at a multiple of 16 bytes.
void sum_squares(cudaStream_t, const float* values, std::size_t count, double* partials, double* sum);

/// AdamW with decoupled weight decay (Loshchilov and Hutter 2019) and clipping by the global norm.
struct AdamWSettings {
  float learning_rate, beta1, beta2, epsilon, weight_decay;
  float largest_norm;    // of the whole gradient; what is longer is scaled down to it
  float gradient_scale;  // of the gradients as they stand: 1 / ranks where they were summed
};

/// What one update needs to know, computed on the GPU, so that the host does not wait for the norm.
struct UpdateState {
  double norm = 0;                    // of the scaled gradient, before clipping
  float scale = 0;                    // gradient_scale, times what clips
  float correction1 = 0, correction2 = 0;  // 1 - beta^step
  std::int32_t step = 0;              // updates made
  std::int32_t skipped = 0;           // updates left out, because the norm or the loss was not finite
  std::int32_t calls = 0;
  std::int32_t first_bad_call = -1;   // counted from 0; -1: none
};

/// Prepares an update: reads the squared norm and the loss; if either is not finite, the update is skipped.
void begin_update(cudaStream_t, const double* squared_norm, const double* loss, const AdamWSettings&, UpdateState*);

/// A part of the flat parameters that is a matrix, and where its bf16 copy stands: copy[r][c] = scale * parameter.
struct Segment {
  std::size_t offset;  // of its first element in the flat arrays
  int rows, columns;
  Bf16* copy;
  std::size_t stride;
  float scale;
};

/// One update of all parameters, and their copies. The segments (in device memory) cover the flat arrays; columns and
/// offsets divide by 8.
void adamw(cudaStream_t, const Segment* segments, int count, float* parameters, float* m, float* v,
           const float* gradients, const AdamWSettings&, const UpdateState*);

/// The copies alone.
void refresh_copies(cudaStream_t, const Segment* segments, int count, const float* parameters);

// Data ----------------------------------------------------------------------------------------------------------------

/// Element (r, c) = deviation * reference::normal(first + r * columns + c, stream_id), rounded. No restriction on
/// columns.
void fill_normal(cudaStream_t, Rows<Bf16>, int rows, int columns, float deviation, std::uint64_t first,
                 std::uint64_t stream_id);
void fill_normal(cudaStream_t, Rows<float>, int rows, int columns, float deviation, std::uint64_t first,
                 std::uint64_t stream_id);

/// Every element of the rows becomes `value`.
void fill_value(cudaStream_t, Rows<Bf16>, int rows, int columns, float value);

}  // namespace shakedown::cuda
