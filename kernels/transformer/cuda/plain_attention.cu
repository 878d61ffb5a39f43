// Straightforward attention on CUDA cores in f32. A warp owns four rows (queries, or keys in the second half of
// backward) and processes the other side in tiles of 32, one row for each lane. One warp computes each sum, in a fixed
// order.
#include <cmath>

#include "kernels/cuda/handle.hpp"
#include "kernels/device.hpp"
#include "kernels/transformer/cuda/attention.hpp"
#include "kernels/transformer/cuda/vector.cuh"

namespace shakedown::cuda {

namespace {

constexpr int max_head_columns = 128;
constexpr int rows_of_warp = 4, warps = 4, tile = rows_of_warp * warps;  // rows of a warp, and warps of a block
constexpr int others = 32;
constexpr int per_lane = max_head_columns / 32;
constexpr unsigned whole_warp = 0xffffffffU;

/// 32 rows of the other side. Padding of two elements in each row avoids bank conflicts between lanes.
struct Others {
  __nv_bfloat16 at[others][max_head_columns + 2];

  __device__ void take(const __nv_bfloat16* from, std::size_t stride, int rows, int size) {
    for (int i = static_cast<int>(threadIdx.x); i < others * size; i += warps * 32) {
      const int row = i / size, c = i % size;
      at[row][c] = row < rows ? from[row * stride + static_cast<std::size_t>(c)] : __nv_bfloat16(0.0F);
    }
  }
  __device__ float dot(int row, const float* with, int size) const {
    float sum = 0;
    for (int c = 0; c < size; c += 2) {
      const auto pair = *reinterpret_cast<const __nv_bfloat162*>(&at[row][c]);
      sum += with[c] * __low2float(pair) + with[c + 1] * __high2float(pair);
    }
    return sum;
  }
  /// For the elements of this lane: sums[i] += the sum over rows of weight(row) * element.
  __device__ void add_to(float (&sums)[per_lane], float weight, int size) const {
    for (int row = 0; row < others; ++row) {
      const float w = __shfl_sync(whole_warp, weight, row);
#pragma unroll
      for (int i = 0; i < per_lane; ++i) {
        const int c = static_cast<int>(threadIdx.x % 32) + 32 * i;
        if (c < size) sums[i] += w * __bfloat162float(at[row][c]);
      }
    }
  }
};

/// The rows of this block's warps, as floats.
struct Own {
  float at[tile][max_head_columns];

  __device__ void take(const __nv_bfloat16* from, std::size_t stride, int rows, int size) {
    for (int i = static_cast<int>(threadIdx.x); i < tile * size; i += warps * 32) {
      const int row = i / size, c = i % size;
      at[row][c] = row < rows ? __bfloat162float(from[row * stride + static_cast<std::size_t>(c)]) : 0.0F;
    }
  }
};

__device__ void store_row(__nv_bfloat16* to, const float (&sums)[per_lane], float factor, int size) {
#pragma unroll
  for (int i = 0; i < per_lane; ++i) {
    const int c = static_cast<int>(threadIdx.x % 32) + 32 * i;
    if (c < size) to[c] = __float2bfloat16(sums[i] * factor);
  }
}

__device__ float max_warp(float mine) {
  for (int step = 16; step > 0; step /= 2) mine = fmaxf(mine, __shfl_xor_sync(whole_warp, mine, step));
  return mine;
}

/// Positions of the heads of a sequence in a packed row.
struct Heads {
  int sequence, query_heads, kv_heads, size;
  bool causal;

  /// True if a query attends to a key. Both must be in the sequence.
  __device__ bool sees(int query, int key) const { return key < sequence && (!causal || key <= query); }
  /// Returns the end of the keys that queries before `end` attend to.
  __device__ int keys_before(int end) const { return causal ? min(end, sequence) : sequence; }
  __device__ int kv_of(int query_head) const { return query_head / (query_heads / kv_heads); }
  __device__ std::size_t key(int kv_head) const { return static_cast<std::size_t>(query_heads + kv_head) * size; }
  __device__ std::size_t value(int kv_head) const {
    return static_cast<std::size_t>(query_heads + kv_heads + kv_head) * size;
  }
};

/// The grid has the dimensions (tile of queries, query head, sequence).
__global__ void __launch_bounds__(warps * 32)
    forward_kernel(Heads heads, Rows<const Bf16> qkv, Rows<Bf16> out, float* lse, float scale) {
  __shared__ Own queries;
  __shared__ Others keys, values;
  const int size = heads.size, warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int first = static_cast<int>(blockIdx.x) * tile, head = static_cast<int>(blockIdx.y), kv = heads.kv_of(head);
  const auto base = static_cast<std::size_t>(blockIdx.z) * static_cast<std::size_t>(heads.sequence);
  queries.take(qkv.at(base + first) + static_cast<std::size_t>(head) * size, qkv.stride, heads.sequence - first, size);

  float sums[rows_of_warp][per_lane] = {}, max[rows_of_warp], total[rows_of_warp] = {};
  for (float& m : max) m = -INFINITY;
  const int end = heads.keys_before(first + tile);
  for (int k = 0; k < end; k += others) {
    __syncthreads();
    keys.take(qkv.at(base + k) + heads.key(kv), qkv.stride, heads.sequence - k, size);
    values.take(qkv.at(base + k) + heads.value(kv), qkv.stride, heads.sequence - k, size);
    __syncthreads();
    for (int i = 0; i < rows_of_warp; ++i) {
      const int row = first + warp * rows_of_warp + i;
      const float score =
          heads.sees(row, k + lane) ? scale * keys.dot(lane, queries.at[warp * rows_of_warp + i], size) : -INFINITY;
      const float new_max = fmaxf(max[i], max_warp(score));
      if (new_max == -INFINITY) continue;  // the whole tile is after this query; all lanes agree on this
      const float weight = expf(score - new_max), shrink = expf(max[i] - new_max);
      total[i] = total[i] * shrink + sum_warp(weight);
      for (float& sum : sums[i]) sum *= shrink;
      values.add_to(sums[i], weight, size);
      max[i] = new_max;
    }
  }
  for (int i = 0; i < rows_of_warp; ++i) {
    const int row = first + warp * rows_of_warp + i;
    if (row >= heads.sequence) break;
    store_row(out.at(base + row) + static_cast<std::size_t>(head) * size, sums[i], 1.0F / total[i], size);
    if (lane == 0) {
      lse[(blockIdx.z * gridDim.y + head) * static_cast<std::size_t>(heads.sequence) + row] = max[i] + logf(total[i]);
    }
  }
}

/// Computes delta = the sum of dout * out over a head. Each row and head has one warp.
__global__ void delta_kernel(Heads heads, Rows<const Bf16> out, Rows<const Bf16> dout, float* delta) {
  const int row = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const auto token = static_cast<std::size_t>(blockIdx.z) * static_cast<std::size_t>(heads.sequence) + row;
  const auto at = static_cast<std::size_t>(head) * heads.size;
  float sum = 0;
  for (int c = static_cast<int>(threadIdx.x); c < heads.size; c += 32) {
    sum += __bfloat162float(out.at(token)[at + c]) * __bfloat162float(dout.at(token)[at + c]);
  }
  sum = sum_warp(sum);
  if (threadIdx.x == 0) delta[(blockIdx.z * gridDim.y + head) * static_cast<std::size_t>(heads.sequence) + row] = sum;
}

/// The grid has the dimensions (tile of queries, query head, sequence).
__global__ void __launch_bounds__(warps * 32)
    dq_kernel(Heads heads, Rows<const Bf16> qkv, const float* lse, Rows<const Bf16> dout, const float* delta,
              Rows<Bf16> dqkv, float scale) {
  __shared__ Own queries, gradients;
  __shared__ Others keys, values;
  const int size = heads.size, warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int first = static_cast<int>(blockIdx.x) * tile, head = static_cast<int>(blockIdx.y), kv = heads.kv_of(head);
  const auto base = static_cast<std::size_t>(blockIdx.z) * static_cast<std::size_t>(heads.sequence);
  const auto of_row = (blockIdx.z * gridDim.y + head) * static_cast<std::size_t>(heads.sequence);
  const auto at = static_cast<std::size_t>(head) * size;
  queries.take(qkv.at(base + first) + at, qkv.stride, heads.sequence - first, size);
  gradients.take(dout.at(base + first) + at, dout.stride, heads.sequence - first, size);

  float sums[rows_of_warp][per_lane] = {};
  const int end = heads.keys_before(first + tile);
  for (int k = 0; k < end; k += others) {
    __syncthreads();
    keys.take(qkv.at(base + k) + heads.key(kv), qkv.stride, heads.sequence - k, size);
    values.take(qkv.at(base + k) + heads.value(kv), qkv.stride, heads.sequence - k, size);
    __syncthreads();
    for (int i = 0; i < rows_of_warp; ++i) {
      const int row = first + warp * rows_of_warp + i;
      float ds = 0;
      if (heads.sees(row, k + lane) && row < heads.sequence) {
        const float p = expf(scale * keys.dot(lane, queries.at[warp * rows_of_warp + i], size) - lse[of_row + row]);
        ds = p * (values.dot(lane, gradients.at[warp * rows_of_warp + i], size) - delta[of_row + row]);
      }
      keys.add_to(sums[i], ds, size);
    }
  }
  for (int i = 0; i < rows_of_warp; ++i) {
    const int row = first + warp * rows_of_warp + i;
    if (row < heads.sequence) store_row(dqkv.at(base + row) + at, sums[i], scale, size);
  }
}

/// Grid: (tile of keys, key head, sequence). A block processes the queries of all heads of the group, one head after
/// another.
__global__ void __launch_bounds__(warps * 32)
    dkv_kernel(Heads heads, Rows<const Bf16> qkv, const float* lse, Rows<const Bf16> dout, const float* delta,
               Rows<Bf16> dqkv, float scale) {
  __shared__ Own keys, values;
  __shared__ Others queries, gradients;
  const int size = heads.size, warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int first = static_cast<int>(blockIdx.x) * tile, kv = static_cast<int>(blockIdx.y);
  const auto base = static_cast<std::size_t>(blockIdx.z) * static_cast<std::size_t>(heads.sequence);
  keys.take(qkv.at(base + first) + heads.key(kv), qkv.stride, heads.sequence - first, size);
  values.take(qkv.at(base + first) + heads.value(kv), qkv.stride, heads.sequence - first, size);

  float dk[rows_of_warp][per_lane] = {}, dv[rows_of_warp][per_lane] = {};
  const int group = heads.query_heads / heads.kv_heads;
  for (int head = kv * group; head < (kv + 1) * group; ++head) {
    const auto at = static_cast<std::size_t>(head) * size;
    const auto of_row = (blockIdx.z * heads.query_heads + head) * static_cast<std::size_t>(heads.sequence);
    for (int q = heads.causal ? first / others * others : 0; q < heads.sequence; q += others) {
      __syncthreads();
      queries.take(qkv.at(base + q) + at, qkv.stride, heads.sequence - q, size);
      gradients.take(dout.at(base + q) + at, dout.stride, heads.sequence - q, size);
      __syncthreads();
      for (int i = 0; i < rows_of_warp; ++i) {
        const int key = first + warp * rows_of_warp + i, row = q + lane;
        float p = 0, ds = 0;
        if (heads.sees(row, key) && row < heads.sequence) {
          p = expf(scale * queries.dot(lane, keys.at[warp * rows_of_warp + i], size) - lse[of_row + row]);
          ds = p * (gradients.dot(lane, values.at[warp * rows_of_warp + i], size) - delta[of_row + row]);
        }
        queries.add_to(dk[i], ds, size);
        gradients.add_to(dv[i], p, size);
      }
    }
  }
  for (int i = 0; i < rows_of_warp; ++i) {
    const int key = first + warp * rows_of_warp + i;
    if (key >= heads.sequence) break;
    store_row(dqkv.at(base + key) + heads.key(kv), dk[i], scale, size);
    store_row(dqkv.at(base + key) + heads.value(kv), dv[i], 1, size);
  }
}

class PlainAttention final : public Attention {
 public:
  explicit PlainAttention(const AttentionShape& shape)
      : shape_(shape),
        heads_{shape.sequence, shape.query_heads, shape.kv_heads, shape.head_size, shape.causal},
        scale_(1.0F / std::sqrt(static_cast<float>(shape.head_size))) {}

  /// Returns the size of delta, which has one float for each row and head.
  std::size_t workspace_bytes() const override {
    return sizeof(float) * static_cast<std::size_t>(shape_.batch) * static_cast<std::size_t>(shape_.query_heads) *
           static_cast<std::size_t>(shape_.sequence);
  }

  void forward(cudaStream_t stream, const Bf16* qkv, Bf16* out, float* lse, void*) const override {
    forward_kernel<<<grid(tiles(), shape_.query_heads), warps * 32, 0, stream>>>(
        heads_, rows(qkv, shape_.qkv_stride), rows(out, shape_.out_stride), lse, scale_);
    check(cudaGetLastError());
  }

  void backward(cudaStream_t stream, const Bf16* qkv, const Bf16* out, const float* lse, const Bf16* dout, Bf16* dqkv,
                void* workspace) const override {
    auto* const delta = static_cast<float*>(workspace);
    const auto packed = rows(qkv, shape_.qkv_stride), gradient = rows(dout, shape_.dout_stride);
    const auto result = rows(dqkv, shape_.dqkv_stride);
    delta_kernel<<<grid(shape_.sequence, shape_.query_heads), 32, 0, stream>>>(heads_, rows(out, shape_.out_stride),
                                                                               gradient, delta);
    check(cudaGetLastError());
    dq_kernel<<<grid(tiles(), shape_.query_heads), warps * 32, 0, stream>>>(heads_, packed, lse, gradient, delta,
                                                                            result, scale_);
    check(cudaGetLastError());
    dkv_kernel<<<grid(tiles(), shape_.kv_heads), warps * 32, 0, stream>>>(heads_, packed, lse, gradient, delta, result,
                                                                          scale_);
    check(cudaGetLastError());
  }

  std::string name() const override { return "plain"; }

  bool is_deterministic() const override { return true; }

 private:
  template <class T>
  static Rows<T> rows(T* data, std::size_t stride) {
    return Matrix<T>{data, 0, 0, stride};
  }
  int tiles() const { return (shape_.sequence + tile - 1) / tile; }
  dim3 grid(int x, int heads) const {
    return {static_cast<unsigned>(x), static_cast<unsigned>(heads), static_cast<unsigned>(shape_.batch)};
  }

  AttentionShape shape_;
  Heads heads_;
  float scale_;
};

}  // namespace

std::unique_ptr<Attention> make_plain_attention(const AttentionShape& shape) {
  if (shape.head_size > max_head_columns || shape.head_size % 2 != 0 || shape.query_heads % shape.kv_heads != 0) {
    throw Unsupported("attention with heads of " + std::to_string(shape.head_size) + " elements, " +
                      std::to_string(shape.query_heads) + " for queries and " + std::to_string(shape.kv_heads) +
                      " for keys: at most 128 elements, an even number, and whole groups");
  }
  return std::make_unique<PlainAttention>(shape);
}

}  // namespace shakedown::cuda
