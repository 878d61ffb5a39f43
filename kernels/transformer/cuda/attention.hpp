// Attention with grouped key and value heads (Ainslie et al. 2023), causal or not, forward and backward, on what the
// fused projection of queries, keys and values leaves: no transposition, no copy, no repeated heads.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "kernels/transformer/cuda/kernels.hpp"

namespace shakedown::cuda {

/// A row per token, sequence after sequence: the query heads, then the key heads, then the value heads. Strides are in
/// elements from row to row.
struct AttentionShape {
  int batch, sequence, query_heads, kv_heads, head_size;
  std::size_t qkv_stride, out_stride, dout_stride, dqkv_stride;
  bool causal = true;
};

class Attention {
 public:
  Attention() = default;
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;
  virtual ~Attention() = default;

  /// Of the larger of the two directions, known before anything is allocated.
  virtual std::size_t workspace_bytes() const = 0;

  /// out = softmax(q k' / sqrt(head_size), causal if so) v; lse[sequence][head][position] = the logarithm of the sum of
  /// the softmax, which backward needs.
  virtual void forward(cudaStream_t, const Bf16* qkv, Bf16* out, float* lse, void* workspace) const = 0;

  /// dqkv = the gradient of qkv, packed like it.
  virtual void backward(cudaStream_t, const Bf16* qkv, const Bf16* out, const float* lse, const Bf16* dout, Bf16* dqkv,
                        void* workspace) const = 0;

  /// What does it: "plain", or "cudnn 91400" and what follows.
  virtual std::string name() const = 0;

  /// Whether backward gives the same bits every time.
  virtual bool is_deterministic() const = 0;
};

/// Our own kernels: slow, for heads of up to 128 elements, the same bits every time. They check cuDNN, and are never
/// measured in its place. Errors: Unsupported for other heads.
std::unique_ptr<Attention> make_plain_attention(const AttentionShape&);

/// cuDNN's fused kernels. `deterministic`: the same bits every time, for more memory. Errors: Unsupported if this build
/// has no cuDNN, or if cuDNN has no engine for the shape or this GPU.
std::unique_ptr<Attention> make_cudnn_attention(const AttentionShape&, bool deterministic);

}  // namespace shakedown::cuda
