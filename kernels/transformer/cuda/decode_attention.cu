// Attention of one new token of each sequence (Dao et al., "Flash-Decoding for long-context inference", 2023). A block
// processes some positions of one head of keys and values, for all heads of queries that share it. A second kernel
// combines the results of all blocks of a head in a fixed order.
#include <algorithm>
#include <stdexcept>

#include "kernels/transformer/cuda/decode_kernels.hpp"
#include "kernels/transformer/cuda/decode_overlap.cuh"
#include "kernels/transformer/cuda/vector.cuh"

namespace shakedown::cuda {

namespace {

constexpr int split_positions = 64, split_threads = 256, combine_threads = 512;
constexpr std::size_t max_splits = combine_threads, max_shared_heads = 16;

std::size_t splits_of(std::size_t positions) { return (positions + split_positions - 1) / split_positions; }

struct SplitOperands {
  const Bf16* qkv;
  std::size_t qkv_stride;
  Bf16 *keys, *values;
  const float* rotation;
  float* partials;
  int heads, kv_heads, capacity, position;
};

/// The results of the blocks: for each sequence, head and split the weighted sum of values, then for each the largest
/// score, then for each the sum of weights.
template <int d>
struct SplitResults {
  float* sums;
  std::size_t heads, splits;  // heads of all sequences

  __device__ std::size_t index(std::size_t head, std::size_t split) const { return head * splits + split; }
  __device__ float* sum(std::size_t head, std::size_t split) const { return sums + index(head, split) * d; }
  __device__ float& largest(std::size_t head, std::size_t split) const {
    return sums[heads * splits * d + index(head, split)];
  }
  __device__ float& weight(std::size_t head, std::size_t split) const {
    return sums[heads * splits * (d + 1) + index(head, split)];
  }
};

/// Shared memory of a block. Padding avoids bank conflicts.
template <int d>
struct SplitMemory {
  static constexpr int stride = d + vector_width;
  Bf16 *keys, *values;      // split_positions x stride
  float *queries, *scores;  // for each head of queries: d, and split_positions

  __device__ SplitMemory(uint4* shared, int shared_heads)
      : keys(reinterpret_cast<Bf16*>(shared)),
        values(keys + split_positions * stride),
        queries(reinterpret_cast<float*>(values + split_positions * stride)),
        scores(queries + shared_heads * d) {}
  static std::size_t bytes(int shared_heads) {
    return 2 * split_positions * stride * sizeof(Bf16) +
           static_cast<std::size_t>(shared_heads) * (d + split_positions) * sizeof(float);
  }
};

/// Rotates values i and i + d / 2 of a head.
template <int d>
__device__ float2 rotated(const Bf16* head, const float* rotation, int i) {
  const float a = __bfloat162float(head[i]), b = __bfloat162float(head[i + d / 2]);
  const float cosine = rotation[i], sine = rotation[d / 2 + i];
  return {a * cosine - b * sine, b * cosine + a * sine};
}

/// Requests the keys and values of the positions that no kernel changes. The others become 0.
template <int d>
__device__ void request_cache(const SplitOperands& o, std::size_t cache_head, int begin, const SplitMemory<d>& memory) {
  constexpr int vectors = d / vector_width;
  const auto head = cache_head * static_cast<std::size_t>(o.capacity) * d;
  for (int i = static_cast<int>(threadIdx.x); i < split_positions * vectors; i += split_threads) {
    const int p = i / vectors, column = i % vectors * vector_width;
    const bool is_new = begin + p >= o.position;
    const auto at = head + (is_new ? 0 : static_cast<std::size_t>(begin + p) * d + static_cast<std::size_t>(column));
    copy_async(memory.keys + p * memory.stride + column, o.keys + at, is_new);
    copy_async(memory.values + p * memory.stride + column, o.values + at, is_new);
  }
  commit_copies();
}

/// Stores the new key and value, in the cache and in shared memory.
template <int d>
__device__ void add_new_token(const SplitOperands& o, const Bf16* row, std::size_t cache_head, int kv, int begin,
                              const SplitMemory<d>& memory) {
  const int p = o.position - begin, i = static_cast<int>(threadIdx.x);
  if (p >= split_positions || i >= d) return;
  const auto at = (cache_head * static_cast<std::size_t>(o.capacity) + static_cast<std::size_t>(o.position)) * d;
  const auto* const key = row + (o.heads + kv) * d;
  const auto* const value = row + (o.heads + o.kv_heads + kv) * d;
  o.values[at + i] = memory.values[p * memory.stride + i] = value[i];
  if (i >= d / 2) return;
  const float2 both = rotated<d>(key, o.rotation, i);
  o.keys[at + i] = memory.keys[p * memory.stride + i] = __float2bfloat16(both.x);
  o.keys[at + i + d / 2] = memory.keys[p * memory.stride + i + d / 2] = __float2bfloat16(both.y);
}

/// Computes the scores of all heads of queries. A thread has one position, and every `groups`-th head.
template <int d>
__device__ void compute_scores(const SplitOperands& o, int shared_heads, int begin, const SplitMemory<d>& memory) {
  constexpr int groups = split_threads / split_positions, max_heads = max_shared_heads / groups;
  const int p = static_cast<int>(threadIdx.x) % split_positions,
            group = static_cast<int>(threadIdx.x) / split_positions;
  float score[max_heads] = {};
  for (int c = 0; c < d; c += vector_width) {
    const Eight key = load(memory.keys + p * memory.stride + c);
#pragma unroll
    for (int h = 0; h < max_heads; ++h) {
      if (group + h * groups >= shared_heads) break;
      const float* const query = memory.queries + (group + h * groups) * d + c;
#pragma unroll
      for (int i = 0; i < vector_width; ++i) score[h] = fmaf(query[i], key.at[i], score[h]);
    }
  }
  for (int h = 0; h < max_heads && group + h * groups < shared_heads; ++h) {
    memory.scores[(group + h * groups) * split_positions + p] = begin + p <= o.position ? score[h] : -INFINITY;
  }
}

/// Replaces the scores by weights relative to the largest score. A warp has every eighth head.
template <int d>
__device__ void compute_weights(int shared_heads, const SplitMemory<d>& memory, const SplitResults<d>& results,
                                std::size_t first_head) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int h = static_cast<int>(threadIdx.x) / 32; h < shared_heads; h += split_threads / 32) {
    float* const scores = memory.scores + h * split_positions;
    const float a = scores[lane], b = scores[lane + 32];
    float largest = fmaxf(a, b);
    for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, step));
    scores[lane] = __expf(a - largest);
    scores[lane + 32] = __expf(b - largest);
    const float weight = sum_warp(scores[lane] + scores[lane + 32]);
    if (lane != 0) continue;
    results.largest(first_head + h, blockIdx.x) = largest;
    results.weight(first_head + h, blockIdx.x) = weight;
  }
}

/// A thread has two columns, and some of the heads.
template <int d>
__device__ void sum_values(int shared_heads, const SplitMemory<d>& memory, const SplitResults<d>& results,
                           std::size_t first_head) {
  const int column = static_cast<int>(threadIdx.x) % (d / 2) * 2;
  for (int h = static_cast<int>(threadIdx.x) / (d / 2); h < shared_heads; h += split_threads / (d / 2)) {
    float2 sum{};
#pragma unroll 8
    for (int p = 0; p < split_positions; ++p) {
      const auto packed = *reinterpret_cast<const std::uint32_t*>(memory.values + p * memory.stride + column);
      const float weight = memory.scores[h * split_positions + p];
      sum.x = fmaf(weight, __uint_as_float(packed << 16), sum.x);
      sum.y = fmaf(weight, __uint_as_float(packed & 0xffff0000U), sum.y);
    }
    *reinterpret_cast<float2*>(results.sum(first_head + h, blockIdx.x) + column) = sum;
  }
}

/// The grid has one block for each split, head of keys and values, and sequence.
template <int d>
__global__ void __launch_bounds__(split_threads) attend_kernel(SplitOperands o) {
  extern __shared__ uint4 shared[];
  allow_next_kernel();
  const int shared_heads = o.heads / o.kv_heads, kv = static_cast<int>(blockIdx.y);
  const int begin = static_cast<int>(blockIdx.x) * split_positions;
  const std::size_t sequence = blockIdx.z, cache_head = sequence * gridDim.y + blockIdx.y;
  const SplitMemory<d> memory(shared, shared_heads);
  const SplitResults<d> results{o.partials, static_cast<std::size_t>(gridDim.z) * o.heads, gridDim.x};
  request_cache<d>(o, cache_head, begin, memory);
  wait_for_previous_kernel();
  const auto* const row = o.qkv + sequence * o.qkv_stride;
  for (int i = static_cast<int>(threadIdx.x); i < shared_heads * (d / 2); i += split_threads) {
    const int head = i / (d / 2), column = i % (d / 2);
    const float2 both = rotated<d>(row + (kv * shared_heads + head) * d, o.rotation, column);
    memory.queries[head * d + column] = both.x * rsqrtf(static_cast<float>(d));
    memory.queries[head * d + column + d / 2] = both.y * rsqrtf(static_cast<float>(d));
  }
  wait_for_copies<0>();
  __syncthreads();
  add_new_token<d>(o, row, cache_head, kv, begin, memory);
  __syncthreads();
  compute_scores<d>(o, shared_heads, begin, memory);
  __syncthreads();
  const std::size_t first_head =
      sequence * static_cast<std::size_t>(o.heads) + static_cast<std::size_t>(kv * shared_heads);
  compute_weights<d>(shared_heads, memory, results, first_head);
  __syncthreads();
  sum_values<d>(shared_heads, memory, results, first_head);
}

/// The grid has one block for each head and sequence. A thread has one column and every `groups`-th split.
template <int d>
__global__ void __launch_bounds__(combine_threads)
    combine_kernel(float* partials, Bf16* out, std::size_t out_stride, int splits) {
  constexpr int groups = combine_threads / d;
  __shared__ float factors[max_splits], parts[groups][d];
  allow_next_kernel();
  wait_for_previous_kernel();
  const std::size_t head = static_cast<std::size_t>(blockIdx.y) * gridDim.x + blockIdx.x;
  const SplitResults<d> results{partials, static_cast<std::size_t>(gridDim.x) * gridDim.y,
                                static_cast<std::size_t>(splits)};
  const int t = static_cast<int>(threadIdx.x), column = t % d, group = t / d;
  const float largest = t < splits ? results.largest(head, t) : -INFINITY;
  const float weight = t < splits ? results.weight(head, t) : 0.0F;
  const float factor = __expf(largest - max_block(largest));
  if (t < splits) factors[t] = factor;
  const float total = sum_block(factor * weight);
  float sum = 0;
#pragma unroll 16
  for (int s = group; s < splits; s += groups) sum = fmaf(factors[s], results.sum(head, s)[column], sum);
  parts[group][column] = sum;
  __syncthreads();
  if (group > 0) return;
  for (int g = 1; g < groups; ++g) sum += parts[g][column];
  out[blockIdx.y * out_stride + blockIdx.x * d + column] = __float2bfloat16(sum / total);
}

template <int d>
void launch(cudaStream_t stream, const DecodeAttention& a, float* partials, const DecodeGpu& gpu) {
  const auto splits = static_cast<unsigned>(splits_of(a.position + 1));
  const auto batch = static_cast<unsigned>(a.qkv.rows), heads = static_cast<unsigned>(a.heads);
  const SplitOperands operands{.qkv = a.qkv.data,
                               .qkv_stride = a.qkv.stride,
                               .keys = a.keys,
                               .values = a.values,
                               .rotation = a.rotation,
                               .partials = partials,
                               .heads = static_cast<int>(a.heads),
                               .kv_heads = static_cast<int>(a.kv_heads),
                               .capacity = static_cast<int>(a.capacity),
                               .position = static_cast<int>(a.position)};
  launch_overlapping(attend_kernel<d>, dim3(splits, static_cast<unsigned>(a.kv_heads), batch), split_threads,
                     SplitMemory<d>::bytes(static_cast<int>(a.heads / a.kv_heads)), stream, gpu.can_overlap, operands);
  launch_overlapping(combine_kernel<d>, dim3(heads, batch), combine_threads, 0, stream, gpu.can_overlap, partials,
                     a.out.data, a.out.stride, static_cast<int>(splits));
}

}  // namespace

std::size_t attention_partials(std::size_t batch, std::size_t heads, std::size_t head_dim, std::size_t context) {
  return batch * heads * splits_of(context) * (head_dim + 2);
}

void attend(cudaStream_t stream, const DecodeAttention& a, float* partials, const DecodeGpu& gpu) {
  if (a.heads % a.kv_heads != 0 || a.heads / a.kv_heads > max_shared_heads || splits_of(a.position + 1) > max_splits ||
      (a.head_dim != 128 && a.head_dim != 16)) {
    throw std::invalid_argument(
        "decode: attention supports heads of 128 or 16 columns, 16 heads of queries for each "
        "head of keys and values, and 32,768 tokens");
  }
  if (a.head_dim == 128) return launch<128>(stream, a, partials, gpu);
  launch<16>(stream, a, partials, gpu);
}

}  // namespace shakedown::cuda
