// Softmax cross-entropy in place. Each row of logits has one block, with one pass for maximum and sum (online softmax,
// Milakov and Gimelshein 2018), and one for the gradient.
#include "kernels/cuda/handle.hpp"
#include "kernels/transformer/cuda/kernels.hpp"
#include "kernels/transformer/cuda/vector.cuh"

namespace shakedown::cuda {

namespace {

constexpr int loss_threads = 1024;

/// Running maximum and sum = the sum of exp(x - max) so far. A NaN makes the sum NaN.
struct MaxAndSum {
  float max = -INFINITY, sum = 0;

  __device__ void raise(float x) {
    if (x <= max) return;
    sum *= __expf(max - x);
    max = x;
  }
  __device__ void add(float x) {
    raise(x);
    sum += __expf(x - max);
  }
  __device__ void add(const Eight& values) {
    float most = values.at[0];
#pragma unroll
    for (const float value : values.at) most = fmaxf(most, value);
    raise(most);
#pragma unroll
    for (const float value : values.at) sum += __expf(value - max);
  }
};

/// Reduces a row with all threads of the block; every thread gets the result.
__device__ MaxAndSum max_and_sum(const Bf16* at, int columns) {
  const int whole = columns / vector_width * vector_width, tail = whole + static_cast<int>(threadIdx.x);
  MaxAndSum mine;
  for (int c = static_cast<int>(threadIdx.x) * vector_width; c < whole; c += loss_threads * vector_width) {
    mine.add(load(at + c));
  }
  if (tail < columns) mine.add(__bfloat162float(at[tail]));
  const float max = max_block(mine.max);
  return {max, sum_block(mine.sum * __expf(mine.max - max))};
}

__device__ void write_gradient(Bf16* at, int columns, int target, float scale, const MaxAndSum& all) {
  const int whole = columns / vector_width * vector_width, tail = whole + static_cast<int>(threadIdx.x);
  const float factor = scale / all.sum;
  const auto gradient = [&](float logit, int c) {
    return __expf(logit - all.max) * factor - (c == target ? scale : 0.0F);
  };
  for (int c = static_cast<int>(threadIdx.x) * vector_width; c < whole; c += loss_threads * vector_width) {
    auto values = load(at + c);
#pragma unroll
    for (int i = 0; i < vector_width; ++i) values.at[i] = gradient(values.at[i], c + i);
    store(at + c, values);
  }
  if (tail < columns) at[tail] = __float2bfloat16(gradient(__bfloat162float(at[tail]), tail));
}

/// Returns the row of a block. Rows are processed from last to first, because the last ones that the previous product
/// wrote are still in the cache.
__device__ unsigned row_of_block() { return gridDim.x - 1 - blockIdx.x; }

__global__ void __launch_bounds__(loss_threads)
    cross_entropy_kernel(Rows<Bf16> logits, const int* targets, float* losses, int columns, float scale) {
  const unsigned row = row_of_block();
  Bf16* const at = logits.at(row);
  const int target = targets[row];
  const bool counts = target != training::no_target;
  const float target_logit = counts ? __bfloat162float(at[target]) : 0.0F;  // read before any thread writes:
                                                                            // max_and_sum synchronizes the block
  const auto all = max_and_sum(at, columns);
  if (threadIdx.x == 0) losses[row] = counts ? all.max + logf(all.sum) - target_logit : 0.0F;
  write_gradient(at, columns, target, counts ? scale : 0.0F, all);
}

__global__ void __launch_bounds__(loss_threads)
    logit_parts_kernel(Rows<const Bf16> logits, const int* targets, LogitPart* parts, int columns) {
  const unsigned row = row_of_block();
  const Bf16* const at = logits.at(row);
  const auto mine = max_and_sum(at, columns);
  if (threadIdx.x > 0) return;
  parts[row] = {mine.max, mine.sum, targets[row] < 0 ? 0.0F : __bfloat162float(at[targets[row]])};
}

__global__ void __launch_bounds__(loss_threads)
    cross_entropy_of_parts_kernel(Rows<Bf16> logits, const int* targets, float* losses, int columns, float scale,
                                  const LogitPart* parts, int ranks) {
  const unsigned row = row_of_block();
  MaxAndSum all;
  float target_logit = 0;
  for (int r = 0; r < ranks; ++r) all.max = fmaxf(all.max, parts[r * gridDim.x + row].max);
  for (int r = 0; r < ranks; ++r) {
    const auto& part = parts[r * gridDim.x + row];
    all.sum += part.sum * __expf(part.max - all.max);
    target_logit += part.target;
  }
  const bool counts = targets[row] != training::no_target;
  if (threadIdx.x == 0) losses[row] = counts ? all.max + logf(all.sum) - target_logit : 0.0F;
  write_gradient(logits.at(row), columns, targets[row], counts ? scale : 0.0F, all);
}

__global__ void __launch_bounds__(loss_threads)
    add_sum_kernel(const float* values, std::size_t count, double scale, double* to) {
  double mine = 0;
  for (std::size_t i = threadIdx.x; i < count; i += loss_threads) mine += values[i];
  mine = sum_block(mine);
  if (threadIdx.x == 0) *to += scale * mine;
}

}  // namespace

void cross_entropy(cudaStream_t stream, Matrix<Bf16> logits, const int* targets, float scale, float* losses) {
  cross_entropy_kernel<<<static_cast<unsigned>(logits.rows), loss_threads, 0, stream>>>(
      logits, targets, losses, static_cast<int>(logits.cols), scale);
  check(cudaGetLastError());
}

void logit_parts(cudaStream_t stream, Matrix<const Bf16> logits, const int* targets, LogitPart* parts) {
  logit_parts_kernel<<<static_cast<unsigned>(logits.rows), loss_threads, 0, stream>>>(logits, targets, parts,
                                                                                      static_cast<int>(logits.cols));
  check(cudaGetLastError());
}

void cross_entropy(cudaStream_t stream, Matrix<Bf16> logits, const int* targets, float scale, float* losses,
                   const LogitPart* parts, int ranks) {
  cross_entropy_of_parts_kernel<<<static_cast<unsigned>(logits.rows), loss_threads, 0, stream>>>(
      logits, targets, losses, static_cast<int>(logits.cols), scale, parts, ranks);
  check(cudaGetLastError());
}

void add_sum(cudaStream_t stream, const float* values, std::size_t count, double scale, double* to) {
  add_sum_kernel<<<1, loss_threads, 0, stream>>>(values, count, scale, to);
  check(cudaGetLastError());
}

}  // namespace shakedown::cuda
