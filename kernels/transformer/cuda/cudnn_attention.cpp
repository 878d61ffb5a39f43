// Attention as graphs of plain operations, each of which cuDNN 9 recognizes and turns into one fused kernel. NVIDIA's
// documentation of scaled dot product attention describes the composition. The unified operation of later versions does
// not support causal masks before 9.21.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "kernels/device.hpp"
#include "kernels/transformer/cuda/attention.hpp"
#include "kernels/transformer/cuda/cudnn_graph.hpp"

namespace shakedown::cuda {

namespace {

using Tensor = CudnnGraph::Tensor;

constexpr auto f32 = CUDNN_DATA_FLOAT, bf16 = CUDNN_DATA_BFLOAT16;

/// Sizes of one call, and the tensors that both directions use.
struct Sizes {
  std::int64_t batch, sequence, heads, kv_heads, size;
  bool causal;

  explicit Sizes(const AttentionShape& s)
      : batch(s.batch),
        sequence(s.sequence),
        heads(s.query_heads),
        kv_heads(s.kv_heads),
        size(s.head_size),
        causal(s.causal) {}

  /// Returns a tensor of heads stored in rows of `stride` elements.
  Tensor rows(CudnnGraph& graph, std::int64_t count, std::size_t stride) const {
    const auto row = static_cast<std::int64_t>(stride);
    return graph.memory(bf16, {batch, count, sequence, size}, {sequence * row, size, row, 1});
  }
  /// Returns the same tensor with rows and columns exchanged.
  Tensor columns(CudnnGraph& graph, std::int64_t count, std::size_t stride) const {
    const auto row = static_cast<std::int64_t>(stride);
    return graph.memory(bf16, {batch, count, size, sequence}, {sequence * row, size, 1, row});
  }
  /// Returns a tensor with one number for each query and head.
  Tensor per_query(CudnnGraph& graph) const {
    return graph.memory(f32, {batch, heads, sequence, 1}, {heads * sequence, sequence, 1, 1});
  }
  Tensor per_query_between(CudnnGraph& graph) const {
    return graph.between(f32, {batch, heads, sequence, 1}, {heads * sequence, sequence, 1, 1});
  }
  /// Returns a tensor with one number for each query, key and head. The tensor never exists in memory.
  Tensor scores(CudnnGraph& graph, cudnnDataType_t type) const {
    return graph.between(type, {batch, heads, sequence, sequence},
                         {heads * sequence * sequence, sequence * sequence, sequence, 1});
  }
  Tensor scores_transposed(CudnnGraph& graph) const {
    return graph.between(bf16, {batch, heads, sequence, sequence},
                         {heads * sequence * sequence, sequence * sequence, 1, sequence});
  }
  Tensor head_rows_between(CudnnGraph& graph, cudnnDataType_t type) const {
    return graph.between(type, {batch, heads, sequence, size}, {heads * sequence * size, sequence * size, size, 1});
  }
};

/// Returns the scaled scores q k'. With causal attention, the scores of later keys are set to the lowest number.
Tensor scores(CudnnGraph& graph, const Sizes& sizes, Tensor q, Tensor k, Tensor scale, Tensor lowest) {
  const auto product = sizes.scores(graph, f32), scaled = sizes.scores(graph, f32);
  graph.matmul(q, k, product);
  graph.pointwise(CUDNN_POINTWISE_MUL, f32, product, scale, scaled);
  if (!sizes.causal) return scaled;
  const auto row = sizes.scores(graph, CUDNN_DATA_INT32), column = sizes.scores(graph, CUDNN_DATA_INT32);
  graph.index(2, scaled, row);
  graph.index(3, scaled, column);
  const auto visible = sizes.scores(graph, CUDNN_DATA_BOOLEAN), masked = sizes.scores(graph, f32);
  graph.pointwise(CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, row, column, visible);
  graph.select(scaled, lowest, visible, masked);
  return masked;
}

struct ForwardGraph {
  CudnnGraph graph;
  Tensor q, k, v, out, lse, scale, lowest = -1;

  explicit ForwardGraph(const AttentionShape& shape) {
    const Sizes sizes(shape);
    q = sizes.rows(graph, sizes.heads, shape.qkv_stride);
    k = sizes.columns(graph, sizes.kv_heads, shape.qkv_stride);
    v = sizes.rows(graph, sizes.kv_heads, shape.qkv_stride);
    out = sizes.rows(graph, sizes.heads, shape.out_stride);
    lse = sizes.per_query(graph);
    scale = graph.scalar();
    if (shape.causal) lowest = graph.scalar();

    const auto scores = cuda::scores(graph, sizes, q, k, scale, lowest);
    const auto max = sizes.per_query_between(graph), sum = sizes.per_query_between(graph);
    const auto log = sizes.per_query_between(graph);
    const auto shifted = sizes.scores(graph, f32), weights = sizes.scores(graph, f32);
    const auto softmax = sizes.scores(graph, bf16);
    graph.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, max);
    graph.pointwise(CUDNN_POINTWISE_SUB, f32, scores, max, shifted);
    graph.pointwise(CUDNN_POINTWISE_EXP, f32, shifted, weights);
    graph.reduce(CUDNN_REDUCE_TENSOR_ADD, weights, sum);
    graph.pointwise(CUDNN_POINTWISE_LOG, f32, sum, log);
    graph.pointwise(CUDNN_POINTWISE_ADD, f32, max, log, lse);
    graph.pointwise(CUDNN_POINTWISE_DIV, f32, weights, sum, softmax);
    graph.matmul(softmax, v, out);
  }
};

/// With P = exp(S - lse), delta = rowsum(dO * O), dS = P * (dO V' - delta): dV = P' dO, dK = scale dS' Q, dQ = scale dS
/// K (Dao et al. 2022). dQ is accumulated in memory, in f32 and in no fixed order, unless deterministic. Then each of
/// its elements has a single writer, and dS passes through the workspace.
struct BackwardGraph {
  CudnnGraph graph;
  Tensor q, k, v, out, dout, lse, dq, dk, dv, delta, scale, lowest = -1, one;
  Tensor dq_sum = -1;
  std::size_t delta_bytes, dq_sum_bytes = 0;

  BackwardGraph(const AttentionShape& shape, bool deterministic) {
    const Sizes sizes(shape);
    q = sizes.rows(graph, sizes.heads, shape.qkv_stride);
    k = sizes.columns(graph, sizes.kv_heads, shape.qkv_stride);
    v = sizes.columns(graph, sizes.kv_heads, shape.qkv_stride);
    out = sizes.rows(graph, sizes.heads, shape.out_stride);
    dout = sizes.rows(graph, sizes.heads, shape.dout_stride);
    lse = sizes.per_query(graph);
    dq = sizes.rows(graph, sizes.heads, shape.dqkv_stride);
    dk = sizes.rows(graph, sizes.kv_heads, shape.dqkv_stride);
    dv = sizes.rows(graph, sizes.kv_heads, shape.dqkv_stride);
    delta = sizes.per_query(graph);
    scale = graph.scalar();
    if (shape.causal) lowest = graph.scalar();
    one = graph.scalar();
    const auto per_query = static_cast<std::size_t>(sizes.batch * sizes.heads * sizes.sequence);
    delta_bytes = per_query * sizeof(float);

    const auto product = sizes.head_rows_between(graph, f32), row_sum = sizes.per_query_between(graph);
    graph.pointwise(CUDNN_POINTWISE_MUL, f32, dout, out, product);
    graph.reduce(CUDNN_REDUCE_TENSOR_ADD, product, row_sum);
    graph.pointwise(CUDNN_POINTWISE_MUL, f32, row_sum, one, delta);

    const auto scores = cuda::scores(graph, sizes, q, k, scale, lowest);
    const auto shifted = sizes.scores(graph, f32), p = sizes.scores(graph, f32);
    graph.pointwise(CUDNN_POINTWISE_SUB, f32, scores, lse, shifted);
    graph.pointwise(CUDNN_POINTWISE_EXP, f32, shifted, p);
    sum_over_queries(sizes, p, dout, dv);

    const auto dp = sizes.scores(graph, f32), less_delta = sizes.scores(graph, f32);
    const auto ds = sizes.scores(graph, f32), scaled = sizes.scores(graph, bf16);
    graph.matmul(dout, v, dp);
    graph.pointwise(CUDNN_POINTWISE_SUB, f32, dp, delta, less_delta);
    graph.pointwise(CUDNN_POINTWISE_MUL, f32, less_delta, p, ds);
    graph.pointwise(CUDNN_POINTWISE_MUL, f32, ds, scale, scaled);
    sum_over_queries(sizes, scaled, q, dk);

    const auto row = static_cast<std::int64_t>(shape.qkv_stride);
    const auto k_rows = graph.between(bf16, {sizes.batch, sizes.kv_heads, sizes.sequence, sizes.size},
                                      {sizes.sequence * row, sizes.size, row, 1});
    graph.reshape(k, k_rows);
    if (deterministic) {
      graph.matmul(scaled, k_rows, dq);
    } else {
      dq_sum_bytes = per_query * static_cast<std::size_t>(sizes.size) * sizeof(float);
      dq_sum =
          graph.accumulator({sizes.batch, sizes.heads, sizes.sequence, sizes.size},
                            {sizes.heads * sizes.sequence * sizes.size, sizes.sequence * sizes.size, sizes.size, 1});
      graph.matmul(scaled, k_rows, dq_sum);
      graph.pointwise(CUDNN_POINTWISE_IDENTITY, f32, dq_sum, dq);
    }
  }

 private:
  /// Computes to = weights' rows, summed over the query heads of each group.
  void sum_over_queries(const Sizes& sizes, Tensor weights, Tensor rows, Tensor to) {
    const auto transposed = sizes.scores_transposed(graph);
    graph.reshape(weights, transposed);
    if (sizes.heads == sizes.kv_heads) return graph.matmul(transposed, rows, to);
    const auto by_head = sizes.head_rows_between(graph, bf16);
    graph.matmul(transposed, rows, by_head);
    graph.reduce(CUDNN_REDUCE_TENSOR_ADD, by_head, to);
  }
};

CudnnHandle make_handle() {
  cudnnHandle_t handle = nullptr;
  if (const auto status = cudnnCreate(&handle); status != CUDNN_STATUS_SUCCESS) {
    throw Unsupported(std::string("cuDNN does not start: ") + cudnnGetErrorString(status));
  }
  return CudnnHandle(handle);
}

std::size_t whole_vectors(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

class CudnnAttention final : public Attention {
 public:
  CudnnAttention(const AttentionShape& shape, bool deterministic)
      : shape_(shape),
        deterministic_(deterministic),
        handle_(make_handle()),
        forward_(shape),
        scale_(1.0F / std::sqrt(static_cast<float>(shape.head_size))) {
    const CudnnTarget gpu(handle_.get());
    forward_.graph.build(gpu, "attention");
    if (shape.forward_only) return;
    backward_.emplace(shape, deterministic);
    backward_->graph.build(gpu, "the gradient of attention");
  }

  std::size_t workspace_bytes() const override {
    const auto forward = forward_.graph.workspace_bytes();
    return backward_ ? std::max(forward, own_bytes() + backward_->graph.workspace_bytes()) : forward;
  }

  void forward(cudaStream_t stream, const Bf16* qkv, Bf16* out, float* lse, void* workspace) const override {
    check(cudnnSetStream(handle_.get(), stream));
    const auto& g = forward_;
    std::vector<CudnnGraph::Argument> arguments{{g.q, qkv},   {g.k, qkv + keys()}, {g.v, qkv + values()},
                                                {g.out, out}, {g.lse, lse},        {g.scale, &scale_}};
    if (shape_.causal) arguments.push_back({g.lowest, &lowest_});
    g.graph.run(handle_.get(), arguments, workspace);
  }

  void backward(cudaStream_t stream, const Bf16* qkv, const Bf16* out, const float* lse, const Bf16* dout, Bf16* dqkv,
                void* workspace) const override {
    check(cudnnSetStream(handle_.get(), stream));
    auto* const delta = static_cast<std::byte*>(workspace);
    auto* const dq_sum = delta + whole_vectors(backward_->delta_bytes);
    const auto& g = *backward_;
    std::vector<CudnnGraph::Argument> arguments{{g.q, qkv},       {g.k, qkv + keys()},   {g.v, qkv + values()},
                                                {g.out, out},     {g.dout, dout},        {g.lse, lse},
                                                {g.dq, dqkv},     {g.dk, dqkv + keys()}, {g.dv, dqkv + values()},
                                                {g.delta, delta}, {g.scale, &scale_},    {g.one, &one_}};
    if (shape_.causal) arguments.push_back({g.lowest, &lowest_});
    if (!deterministic_) {
      check(cudaMemsetAsync(dq_sum, 0, g.dq_sum_bytes, stream));
      arguments.push_back({g.dq_sum, dq_sum});
    }
    g.graph.run(handle_.get(), arguments, delta + own_bytes());
  }

  std::string name() const override {
    const auto forward =
        "cudnn " + std::to_string(cudnnGetVersion()) + " engines " + std::to_string(forward_.graph.engine());
    if (!backward_) return forward;
    return forward + ", " + std::to_string(backward_->graph.engine()) + (deterministic_ ? " deterministic" : "");
  }

  bool is_deterministic() const override { return deterministic_; }

 private:
  std::size_t own_bytes() const {
    return whole_vectors(backward_->delta_bytes) + whole_vectors(backward_->dq_sum_bytes);
  }
  std::size_t keys() const {
    return static_cast<std::size_t>(shape_.query_heads) * static_cast<std::size_t>(shape_.head_size);
  }
  std::size_t values() const {
    return keys() + static_cast<std::size_t>(shape_.kv_heads) * static_cast<std::size_t>(shape_.head_size);
  }

  AttentionShape shape_;
  bool deterministic_;
  CudnnHandle handle_;
  ForwardGraph forward_;
  std::optional<BackwardGraph> backward_;  // empty if forward_only
  float scale_, lowest_ = std::numeric_limits<float>::lowest(), one_ = 1;
};

}  // namespace

void plan_cudnn_attention(const AttentionShape& shape, bool deterministic, const DescribedGpu& gpu) {
  const CudnnTarget target(gpu);
  ForwardGraph(shape).graph.build(target, "attention");
  BackwardGraph(shape, deterministic).graph.build(target, "the gradient of attention");
}

std::unique_ptr<Attention> make_cudnn_attention(const AttentionShape& shape, bool deterministic) {
  return std::make_unique<CudnnAttention>(shape, deterministic);
}

}  // namespace shakedown::cuda
