// RMSNorm (Zhang and Sennrich 2019) and LayerNorm (Ba et al. 2016), forward and backward: one block per row, some
// passes over it, all but the first out of the cache.
#include "kernels/cuda/handle.hpp"
#include "kernels/cuda/training/kernels.hpp"
#include "kernels/cuda/training/vector.cuh"

namespace shakedown::cuda {

namespace {

constexpr int threads = 256;

/// body(c) for the columns of this thread, eight at a time.
template <class Body>
__device__ void over_columns(int columns, const Body& body) {
  for (int c = static_cast<int>(threadIdx.x) * vector_width; c < columns; c += threads * vector_width) body(c);
}

/// A row's n from its x: the same bits in both directions.
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

template <bool centred>
__global__ void __launch_bounds__(threads) norm_kernel(Rows<const Bf16> x, NormWeights weights, Rows<Bf16> n,
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
__global__ void __launch_bounds__(threads)
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
  const auto kernel = statistics.mean == nullptr ? norm_kernel<false> : norm_kernel<true>;
  kernel<<<static_cast<unsigned>(x.rows), threads, 0, stream>>>(x, weights, n, statistics, static_cast<int>(x.cols),
                                                                epsilon);
  check(cudaGetLastError());
}

void norm_backward(cudaStream_t stream, Matrix<const Bf16> dn, Matrix<const Bf16> x, const NormWeights& weights,
                   const NormStatistics& statistics, bool accumulate, Matrix<Bf16> dx, Matrix<Bf16> n) {
  const bool with_n = static_cast<bool>(n);
  const auto kernel = statistics.mean == nullptr ? backward_kernel<false>(accumulate, with_n)
                                                 : backward_kernel<true>(accumulate, with_n);
  kernel<<<static_cast<unsigned>(x.rows), threads, 0, stream>>>(dn, x, weights, statistics, dx, n,
                                                                static_cast<int>(x.cols));
  check(cudaGetLastError());
}

}  // namespace shakedown::cuda
