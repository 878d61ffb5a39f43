// RMSNorm (Zhang and Sennrich 2019), forward and backward: one block per row, two passes over it, the second out of the
// cache.
#include "kernels/cuda/handle.hpp"
#include "kernels/cuda/training/kernels.hpp"
#include "kernels/cuda/training/vector.cuh"

namespace shakedown::cuda {

namespace {

constexpr int threads = 256;

__global__ void __launch_bounds__(threads)
    rmsnorm_kernel(Rows<const Bf16> x, const Bf16* weight, Rows<Bf16> n, float* rstd, int columns, float epsilon) {
  const auto* const from = x.at(blockIdx.x);
  auto* const to = n.at(blockIdx.x);
  float squares = 0;
  for (int c = static_cast<int>(threadIdx.x) * vector_width; c < columns; c += threads * vector_width) {
    const auto values = load(from + c);
#pragma unroll
    for (const float value : values.at) squares += value * value;
  }
  const float scale = rsqrtf(sum_block(squares) / static_cast<float>(columns) + epsilon);
  if (threadIdx.x == 0) rstd[blockIdx.x] = scale;
  for (int c = static_cast<int>(threadIdx.x) * vector_width; c < columns; c += threads * vector_width) {
    auto values = load(from + c);
    const auto weights = load(weight + c);
#pragma unroll
    for (int i = 0; i < vector_width; ++i) values.at[i] = values.at[i] * scale * weights.at[i];
    store(to + c, values);
  }
}

template <bool accumulate, bool with_n>
__global__ void __launch_bounds__(threads)
    rmsnorm_backward_kernel(Rows<const Bf16> dn, Rows<const Bf16> x, const Bf16* weight, const float* rstd,
                            Rows<Bf16> dx, Rows<Bf16> n, int columns) {
  const auto* const gradients = dn.at(blockIdx.x);
  const auto* const from = x.at(blockIdx.x);
  auto* const to = dx.at(blockIdx.x);
  float sum = 0;
  for (int c = static_cast<int>(threadIdx.x) * vector_width; c < columns; c += threads * vector_width) {
    const auto values = load(from + c), weights = load(weight + c), gradient = load(gradients + c);
#pragma unroll
    for (int i = 0; i < vector_width; ++i) sum += gradient.at[i] * weights.at[i] * values.at[i];
  }
  const float scale = rstd[blockIdx.x];
  const float along_x = sum_block(sum) / static_cast<float>(columns) * scale * scale * scale;
  for (int c = static_cast<int>(threadIdx.x) * vector_width; c < columns; c += threads * vector_width) {
    auto values = load(from + c);
    const auto weights = load(weight + c), gradient = load(gradients + c);
    Eight total{};
    if constexpr (accumulate) total = load(to + c);
#pragma unroll
    for (int i = 0; i < vector_width; ++i) {
      total.at[i] += gradient.at[i] * weights.at[i] * scale - values.at[i] * along_x;
    }
    store(to + c, total);
    if constexpr (with_n) {
#pragma unroll
      for (int i = 0; i < vector_width; ++i) values.at[i] = values.at[i] * scale * weights.at[i];
      store(n.at(blockIdx.x) + c, values);
    }
  }
}

}  // namespace

void rmsnorm(cudaStream_t stream, Matrix<const Bf16> x, const Bf16* weight, float epsilon, Matrix<Bf16> n,
             float* rstd) {
  rmsnorm_kernel<<<static_cast<unsigned>(x.rows), threads, 0, stream>>>(x, weight, n, rstd, static_cast<int>(x.cols),
                                                                        epsilon);
  check(cudaGetLastError());
}

void rmsnorm_backward(cudaStream_t stream, Matrix<const Bf16> dn, Matrix<const Bf16> x, const Bf16* weight,
                      const float* rstd, bool accumulate, Matrix<Bf16> dx, Matrix<Bf16> n) {
  const auto kernel = n ? (accumulate ? rmsnorm_backward_kernel<true, true> : rmsnorm_backward_kernel<false, true>)
                        : (accumulate ? rmsnorm_backward_kernel<true, false> : rmsnorm_backward_kernel<false, false>);
  kernel<<<static_cast<unsigned>(x.rows), threads, 0, stream>>>(dn, x, weight, rstd, dx, n, static_cast<int>(x.cols));
  check(cudaGetLastError());
}

}  // namespace shakedown::cuda
