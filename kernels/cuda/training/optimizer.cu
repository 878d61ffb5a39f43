// The global norm of the gradient and AdamW, over flat arrays.
#include <algorithm>

#include "kernels/cuda/handle.hpp"
#include "kernels/cuda/training/kernels.hpp"
#include "kernels/cuda/training/vector.cuh"

namespace shakedown::cuda {

namespace {

constexpr int threads = 256;
constexpr unsigned blocks_per_segment = 48;

__global__ void __launch_bounds__(threads) sum_squares_kernel(const float* values, std::size_t count, double* partials) {
  double mine = 0;
  const auto vectors = count / 4;
  for (auto i = static_cast<std::size_t>(blockIdx.x) * threads + threadIdx.x; i < vectors;
       i += static_cast<std::size_t>(gridDim.x) * threads) {
    const float4 four = reinterpret_cast<const float4*>(values)[i];
    mine += static_cast<double>(four.x) * four.x + static_cast<double>(four.y) * four.y +
            static_cast<double>(four.z) * four.z + static_cast<double>(four.w) * four.w;
  }
  if (blockIdx.x == 0 && threadIdx.x < count % 4) {
    const double last = values[vectors * 4 + threadIdx.x];
    mine += last * last;
  }
  mine = sum_block(mine);
  if (threadIdx.x == 0) partials[blockIdx.x] = mine;
}

__global__ void __launch_bounds__(partial_sums) sum_partials_kernel(const double* partials, double* sum) {
  const double total = sum_block(partials[threadIdx.x]);
  if (threadIdx.x == 0) *sum = total;
}

__global__ void begin_update_kernel(const double* squared_norm, const double* loss, AdamWSettings settings,
                                    UpdateState* state) {
  const int call = state->calls++;
  state->norm = sqrt(*squared_norm) * settings.gradient_scale;
  if (!isfinite(state->norm) || !isfinite(*loss)) {
    state->scale = 0;
    ++state->skipped;
    if (state->first_bad_call < 0) state->first_bad_call = call;
    return;
  }
  // The 1e-6 is that of torch.nn.utils.clip_grad_norm_.
  const double clip = fmin(1.0, settings.largest_norm / (state->norm + 1e-6));
  state->scale = static_cast<float>(settings.gradient_scale * clip);
  const double step = ++state->step;
  state->correction1 = static_cast<float>(1.0 - pow(static_cast<double>(settings.beta1), step));
  state->correction2 = static_cast<float>(1.0 - pow(static_cast<double>(settings.beta2), step));
}

struct Four {
  float at[4];
};
__device__ Four load_four(const float* from) {
  const float4 raw = *reinterpret_cast<const float4*>(from);
  return {{raw.x, raw.y, raw.z, raw.w}};
}
__device__ void store_four(float* to, const Four& values) {
  *reinterpret_cast<float4*>(to) = float4{values.at[0], values.at[1], values.at[2], values.at[3]};
}

/// Four elements a thread; the copy gets them rounded, as one access of 8 bytes.
__device__ void store_copy(const Segment& segment, std::size_t inside, const Four& values) {
  const auto columns = static_cast<std::size_t>(segment.columns);
  const __nv_bfloat162 low = __floats2bfloat162_rn(values.at[0] * segment.scale, values.at[1] * segment.scale);
  const __nv_bfloat162 high = __floats2bfloat162_rn(values.at[2] * segment.scale, values.at[3] * segment.scale);
  const uint2 raw{*reinterpret_cast<const unsigned*>(&low), *reinterpret_cast<const unsigned*>(&high)};
  *reinterpret_cast<uint2*>(segment.copy + inside / columns * segment.stride + inside % columns) = raw;
}

__global__ void __launch_bounds__(threads)
    adamw_kernel(const Segment* segments, float* parameters, float* m, float* v, const float* gradients,
                 AdamWSettings settings, const UpdateState* state) {
  const float scale = state->scale;
  if (scale == 0) return;  // skipped; clipping alone never gives 0
  const Segment segment = segments[blockIdx.y];
  const auto count = static_cast<std::size_t>(segment.rows) * static_cast<std::size_t>(segment.columns);
  const float decay = 1.0F - settings.learning_rate * settings.weight_decay;
  const float rate = settings.learning_rate / state->correction1;
  const float root_correction = rsqrtf(state->correction2);
  for (auto i = 4 * (static_cast<std::size_t>(blockIdx.x) * threads + threadIdx.x); i < count;
       i += 4 * static_cast<std::size_t>(gridDim.x) * threads) {
    const auto at = segment.offset + i;
    auto parameter = load_four(parameters + at), first = load_four(m + at), second = load_four(v + at);
    const auto gradient = load_four(gradients + at);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float g = gradient.at[j] * scale;
      first.at[j] = settings.beta1 * first.at[j] + (1.0F - settings.beta1) * g;
      second.at[j] = settings.beta2 * second.at[j] + (1.0F - settings.beta2) * g * g;
      parameter.at[j] = parameter.at[j] * decay -
                        rate * first.at[j] / (sqrtf(second.at[j]) * root_correction + settings.epsilon);
    }
    store_four(parameters + at, parameter);
    store_four(m + at, first);
    store_four(v + at, second);
    store_copy(segment, i, parameter);
  }
}

__global__ void __launch_bounds__(threads) refresh_copies_kernel(const Segment* segments, const float* parameters) {
  const Segment segment = segments[blockIdx.y];
  const auto count = static_cast<std::size_t>(segment.rows) * static_cast<std::size_t>(segment.columns);
  for (auto i = 4 * (static_cast<std::size_t>(blockIdx.x) * threads + threadIdx.x); i < count;
       i += 4 * static_cast<std::size_t>(gridDim.x) * threads) {
    store_copy(segment, i, load_four(parameters + segment.offset + i));
  }
}

}  // namespace

void sum_squares(cudaStream_t stream, const float* values, std::size_t count, double* partials, double* sum) {
  sum_squares_kernel<<<partial_sums, threads, 0, stream>>>(values, count, partials);
  check(cudaGetLastError());
  sum_partials_kernel<<<1, partial_sums, 0, stream>>>(partials, sum);
  check(cudaGetLastError());
}

void begin_update(cudaStream_t stream, const double* squared_norm, const double* loss, const AdamWSettings& settings,
                  UpdateState* state) {
  begin_update_kernel<<<1, 1, 0, stream>>>(squared_norm, loss, settings, state);
  check(cudaGetLastError());
}

void adamw(cudaStream_t stream, const Segment* segments, int count, float* parameters, float* m, float* v,
           const float* gradients, const AdamWSettings& settings, const UpdateState* state) {
  const dim3 grid(blocks_per_segment, static_cast<unsigned>(count));
  adamw_kernel<<<grid, threads, 0, stream>>>(segments, parameters, m, v, gradients, settings, state);
  check(cudaGetLastError());
}

void refresh_copies(cudaStream_t stream, const Segment* segments, int count, const float* parameters) {
  const dim3 grid(blocks_per_segment, static_cast<unsigned>(count));
  refresh_copies_kernel<<<grid, threads, 0, stream>>>(segments, parameters);
  check(cudaGetLastError());
}

}  // namespace shakedown::cuda
