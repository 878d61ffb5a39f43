// RMSNorm (Zhang and Sennrich 2019) and LayerNorm (Ba et al. 2016), forward and backward. One warp processes a narrow
// row in its registers. One block processes a wide row in several passes; all but the first read from the cache.
#include <algorithm>

#include "kernels/cuda/handle.hpp"
#include "kernels/transformer/cuda/kernels.hpp"
#include "kernels/transformer/cuda/vector.cuh"

namespace shakedown::cuda {

namespace {

constexpr int norm_threads = 256;

/// Calls body(c) for the columns of this thread, eight at a time.
template <class Body>
__device__ void over_columns(int columns, const Body& body) {
  for (int c = static_cast<int>(threadIdx.x) * vector_width; c < columns; c += norm_threads * vector_width) body(c);
}

/// Computes n from x; forward and backward get the same bits.
template <bool centred>
__device__ Eight normed(const Eight& x, float mean, float rstd, const NormWeights& weights, int c) {
  const auto gain = load(weights.gain + c);
  Eight n;
#pragma unroll
  for (int i = 0; i < vector_width; ++i) n.at[i] = (centred ? x.at[i] - mean : x.at[i]) * rstd * gain.at[i];
  if constexpr (centred) {
    const auto shift = load(weights.shift + c);
#pragma unroll
    for (int i = 0; i < vector_width; ++i) n.at[i] += shift.at[i];
  }
  return n;
}

// Narrow rows ---------------------------------------------------------------------------------------------------------

constexpr int narrow_threads = 128, rows_of_block = narrow_threads / 32;
// The narrowest row that needs more than four vectors in a lane.
constexpr std::size_t min_wide_columns = 4 * 32 * vector_width + 1;

/// The part of a row in one lane: vector v is at column (32 v + lane) 8, if the row has it. The part stays packed,
/// because registers are scarce.
template <int vectors>
struct Lane {
  uint4 packed[vectors];

  static __device__ int column(int v) { return (32 * v + static_cast<int>(threadIdx.x % 32)) * vector_width; }
  /// Calls body(v, column) for the vectors that exist in the row.
  template <class Body>
  static __device__ void each(int columns, const Body& body) {
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
      if (column(v) < columns) body(v, column(v));
    }
  }
  __device__ explicit Lane(int columns, const Bf16* from) {
    each(columns, [&](int v, int c) { packed[v] = load_packed(from + c); });
  }
  __device__ Eight of(int v) const { return unpack(packed[v]); }
};

template <bool centred, int vectors>
__global__ void __launch_bounds__(narrow_threads)
    narrow_norm_kernel(Rows<const Bf16> x, NormWeights weights, Rows<Bf16> n, NormStatistics statistics,
                       std::size_t rows, int columns, float epsilon) {
  const auto row = static_cast<std::size_t>(blockIdx.x) * rows_of_block + threadIdx.x / 32;
  if (row >= rows) return;
  const Lane<vectors> values(columns, x.at(row));
  const auto count = static_cast<float>(columns);
  float mean = 0, sum = 0, squares = 0;
  if constexpr (centred) {
    Lane<vectors>::each(columns, [&](int v, int) {
#pragma unroll
      for (const float value : values.of(v).at) sum += value;
    });
    mean = sum_warp(sum) / count;
  }
  Lane<vectors>::each(columns, [&](int v, int) {
#pragma unroll
    for (const float value : values.of(v).at) squares += (value - mean) * (value - mean);
  });
  const float scale = rsqrtf(sum_warp(squares) / count + epsilon);
  if (threadIdx.x % 32 == 0) {
    statistics.rstd[row] = scale;
    if constexpr (centred) statistics.mean[row] = mean;
  }
  auto* const to = n.at(row);
  Lane<vectors>::each(columns,
                      [&](int v, int c) { store(to + c, normed<centred>(values.of(v), mean, scale, weights, c)); });
}

/// Adds the sums of the warps of this block in order, and writes them to at[block columns + c].
template <int vectors>
__device__ void write_sums_of_block(int columns, const Eight (&sums)[vectors], float* at) {
  __shared__ float of_warps[rows_of_block][vectors * 32 * vector_width];
  __syncthreads();
  Lane<vectors>::each(columns, [&](int v, int c) {
#pragma unroll
    for (int i = 0; i < vector_width; ++i) of_warps[threadIdx.x / 32][c + i] = sums[v].at[i];
  });
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < columns; c += narrow_threads) {
    float sum = 0;
#pragma unroll
    for (const auto& sums_of_warp : of_warps) sum += sums_of_warp[c];
    at[static_cast<std::size_t>(blockIdx.x) * columns + c] = sum;
  }
}

/// With y = (x - mean) rstd and g = dn gain: dx += rstd (g - mean(g) - y mean(g y)). With `trained`, the block writes
/// the sums over its rows of dn y and of dn to gains and shifts. Each warp adds its rows in order.
template <bool centred, bool trained, int vectors>
__global__ void __launch_bounds__(narrow_threads, 4)
    narrow_norm_backward_kernel(Rows<const Bf16> dn, Rows<const Bf16> x, NormWeights weights, NormStatistics statistics,
                                bool accumulate, Rows<Bf16> dx, Rows<Bf16> n, std::size_t rows, int columns,
                                float* gains, float* shifts) {
  using Lanes = Lane<vectors>;
  const unsigned warp = threadIdx.x / 32;
  const auto count = static_cast<float>(columns);
  Eight gain_sums[vectors] = {}, shift_sums[vectors] = {};
  for (auto row = static_cast<std::size_t>(blockIdx.x) * rows_of_block + warp; row < rows;
       row += static_cast<std::size_t>(gridDim.x) * rows_of_block) {
    const Lanes values(columns, x.at(row)), gradients(columns, dn.at(row));
    const float scale = statistics.rstd[row], mean = centred ? statistics.mean[row] : 0.0F;
    float sum = 0, along = 0;
    Lanes::each(columns, [&](int v, int c) {
      const auto gain = load(weights.gain + c), value = values.of(v), gradient = gradients.of(v);
#pragma unroll
      for (int i = 0; i < vector_width; ++i) {
        const float g = gradient.at[i] * gain.at[i], y = (value.at[i] - mean) * scale;
        if constexpr (centred) sum += g;
        along += g * y;
        if constexpr (trained) {
          gain_sums[v].at[i] += gradient.at[i] * y;
          shift_sums[v].at[i] += gradient.at[i];
        }
      }
    });
    const float mean_g = centred ? sum_warp(sum) / count : 0.0F, along_y = sum_warp(along) / count;
    auto* const to = dx.at(row);
    Lanes::each(columns, [&](int v, int c) {
      const auto gain = load(weights.gain + c), value = values.of(v), gradient = gradients.of(v);
      Eight total{};
      if (accumulate) total = load(to + c);
#pragma unroll
      for (int i = 0; i < vector_width; ++i) {
        const float y = (value.at[i] - mean) * scale;
        total.at[i] += (gradient.at[i] * gain.at[i] - mean_g - y * along_y) * scale;
      }
      store(to + c, total);
      if (n.data != nullptr) store(n.at(row) + c, normed<centred>(values.of(v), mean, scale, weights, c));
    });
  }
  if constexpr (trained) {
    write_sums_of_block(columns, gain_sums, gains);
    if (shifts != nullptr) write_sums_of_block(columns, shift_sums, shifts);
  }
}

/// Returns the narrowest kernel that can hold the row.
template <bool centred>
auto narrow_forward(int columns) {
  return columns > 3 * 32 * vector_width ? narrow_norm_kernel<centred, 4> : narrow_norm_kernel<centred, 3>;
}
template <bool centred, bool trained>
auto narrow_backward(int columns) {
  return columns > 3 * 32 * vector_width ? narrow_norm_backward_kernel<centred, trained, 4>
                                         : narrow_norm_backward_kernel<centred, trained, 3>;
}

// Wide rows -----------------------------------------------------------------------------------------------------------

template <bool centred>
__global__ void __launch_bounds__(norm_threads) norm_kernel(Rows<const Bf16> x, NormWeights weights, Rows<Bf16> n,
                                                            NormStatistics statistics, int columns, float epsilon) {
  const auto* const from = x.at(blockIdx.x);
  auto* const to = n.at(blockIdx.x);
  float mean = 0;
  if constexpr (centred) {
    float sum = 0;
    over_columns(columns, [&](int c) {
      const auto values = load(from + c);
#pragma unroll
      for (const float value : values.at) sum += value;
    });
    mean = sum_block(sum) / static_cast<float>(columns);
  }
  float squares = 0;
  over_columns(columns, [&](int c) {
    const auto values = load(from + c);
#pragma unroll
    for (const float value : values.at) squares += (value - mean) * (value - mean);
  });
  const float scale = rsqrtf(sum_block(squares) / static_cast<float>(columns) + epsilon);
  if (threadIdx.x == 0) {
    statistics.rstd[blockIdx.x] = scale;
    if constexpr (centred) statistics.mean[blockIdx.x] = mean;
  }
  over_columns(columns, [&](int c) { store(to + c, normed<centred>(load(from + c), mean, scale, weights, c)); });
}

/// With y = (x - mean) rstd and g = dn gain: dx += rstd (g - mean(g) - y mean(g y)).
template <bool centred, bool accumulate, bool with_n>
__global__ void __launch_bounds__(norm_threads)
    norm_backward_kernel(Rows<const Bf16> dn, Rows<const Bf16> x, NormWeights weights, NormStatistics statistics,
                         Rows<Bf16> dx, Rows<Bf16> n, int columns) {
  const auto* const gradients = dn.at(blockIdx.x);
  const auto* const from = x.at(blockIdx.x);
  auto* const to = dx.at(blockIdx.x);
  const float scale = statistics.rstd[blockIdx.x], mean = centred ? statistics.mean[blockIdx.x] : 0.0F;
  float sum = 0, sum_along_x = 0;
  over_columns(columns, [&](int c) {
    const auto values = load(from + c), gain = load(weights.gain + c), gradient = load(gradients + c);
#pragma unroll
    for (int i = 0; i < vector_width; ++i) {
      const float g = gradient.at[i] * gain.at[i];
      if constexpr (centred) sum += g;
      sum_along_x += g * (values.at[i] - mean);
    }
  });
  const auto count = static_cast<float>(columns);
  const float mean_g = centred ? sum_block(sum) / count : 0.0F;
  const float along_x = sum_block(sum_along_x) / count * scale * scale * scale;
  over_columns(columns, [&](int c) {
    const auto values = load(from + c), gain = load(weights.gain + c), gradient = load(gradients + c);
    Eight total{};
    if constexpr (accumulate) total = load(to + c);
#pragma unroll
    for (int i = 0; i < vector_width; ++i) {
      total.at[i] += (gradient.at[i] * gain.at[i] - mean_g) * scale - (values.at[i] - mean) * along_x;
    }
    store(to + c, total);
    if constexpr (with_n) store(n.at(blockIdx.x) + c, normed<centred>(values, mean, scale, weights, c));
  });
}

template <bool centred>
auto backward_kernel(bool accumulate, bool with_n) {
  if (with_n)
    return accumulate ? norm_backward_kernel<centred, true, true> : norm_backward_kernel<centred, false, true>;
  return accumulate ? norm_backward_kernel<centred, true, false> : norm_backward_kernel<centred, false, false>;
}

}  // namespace

void norm(cudaStream_t stream, Matrix<const Bf16> x, const NormWeights& weights, float epsilon, Matrix<Bf16> n,
          const NormStatistics& statistics) {
  const bool centred = statistics.mean != nullptr;
  const auto columns = static_cast<int>(x.cols);
  if (x.cols < min_wide_columns) {
    const auto kernel = centred ? narrow_forward<true>(columns) : narrow_forward<false>(columns);
    const auto blocks = static_cast<unsigned>((x.rows + rows_of_block - 1) / rows_of_block);
    kernel<<<blocks, narrow_threads, 0, stream>>>(x, weights, n, statistics, x.rows, columns, epsilon);
  } else {
    const auto kernel = centred ? norm_kernel<true> : norm_kernel<false>;
    kernel<<<static_cast<unsigned>(x.rows), norm_threads, 0, stream>>>(x, weights, n, statistics, columns, epsilon);
  }
  check(cudaGetLastError());
}

void norm_backward(cudaStream_t stream, Matrix<const Bf16> dn, Matrix<const Bf16> x, const NormWeights& weights,
                   const NormStatistics& statistics, bool accumulate, Matrix<Bf16> dx, Matrix<Bf16> n,
                   const NormGradient& gradient, const ColumnPartials& partials) {
  const bool centred = statistics.mean != nullptr, trained = gradient.gain != nullptr;
  const auto columns = static_cast<int>(x.cols);
  if (x.cols < min_wide_columns) {
    const auto all = (x.rows + rows_of_block - 1) / rows_of_block;
    const auto blocks = trained ? std::min(all, partials.parts(x.cols)) : all;
    auto *const gains = partials.at, *const shifts = gradient.shift != nullptr ? gains + blocks * x.cols : nullptr;
    const auto kernel =
        centred ? (trained ? narrow_backward<true, true>(columns) : narrow_backward<true, false>(columns))
                : (trained ? narrow_backward<false, true>(columns) : narrow_backward<false, false>(columns));
    kernel<<<static_cast<unsigned>(blocks), narrow_threads, 0, stream>>>(dn, x, weights, statistics, accumulate, dx, n,
                                                                         x.rows, columns, gains, shifts);
    check(cudaGetLastError());
    if (trained) add_parts(stream, partials, blocks, x.cols, gradient);
    return;
  }
  if (trained) norm_gradient(stream, dn, x, statistics, gradient, partials);
  const bool with_n = static_cast<bool>(n);
  const auto kernel = centred ? backward_kernel<true>(accumulate, with_n) : backward_kernel<false>(accumulate, with_n);
  kernel<<<static_cast<unsigned>(x.rows), norm_threads, 0, stream>>>(dn, x, weights, statistics, dx, n, columns);
  check(cudaGetLastError());
}

}  // namespace shakedown::cuda
