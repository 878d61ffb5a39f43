// Attention with grouped key and value heads (Ainslie et al. 2023), causal or not, forward and backward. The attention
// works directly on the output of the fused projection of queries, keys and values, without transposition, copies or
// repeated heads.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "kernels/transformer/cuda/kernels.hpp"

namespace shakedown::cuda {

/// There is one row for each token, sequence after sequence. A row has the query heads, then the key heads, then the
/// value heads. Strides are in elements between rows.
struct AttentionShape {
  int batch, sequence, query_heads, kv_heads, head_size;
  std::size_t qkv_stride, out_stride, dout_stride, dqkv_stride;
  bool causal = true;
  bool forward_only = false;  // no plan and no workspace for backward, which must not be called
};

class Attention {
 public:
  Attention() = default;
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;
  virtual ~Attention() = default;

  /// Returns the workspace of the larger direction, known before any allocation.
  virtual std::size_t workspace_bytes() const = 0;

  /// Computes out = softmax(q k' / sqrt(head_size)) v, with a causal mask if set. The function also stores the
  /// logarithm of the sum of the softmax in lse[sequence][head][position], which backward needs.
  virtual void forward(cudaStream_t, const Bf16* qkv, Bf16* out, float* lse, void* workspace) const = 0;

  /// Computes dqkv, the gradient of qkv in the same layout.
  virtual void backward(cudaStream_t, const Bf16* qkv, const Bf16* out, const float* lse, const Bf16* dout, Bf16* dqkv,
                        void* workspace) const = 0;

  /// Returns the implementation, either "plain" or a text such as "cudnn 91400" with details.
  virtual std::string name() const = 0;

  /// True if backward gives the same bits every time.
  virtual bool is_deterministic() const = 0;
};

/// Returns attention by our own kernels: slow, deterministic, for heads of up to 128 elements. These kernels verify
/// cuDNN and are never measured instead of cuDNN. Errors: Unsupported for larger heads.
std::unique_ptr<Attention> make_plain_attention(const AttentionShape&);

/// Returns attention by cuDNN's fused kernels. If `deterministic`, it gives the same bits every time and needs more
/// memory. Errors: Unsupported if this build has no cuDNN, or if cuDNN has no engine for the shape or this GPU.
std::unique_ptr<Attention> make_cudnn_attention(const AttentionShape&, bool deterministic);

/// A GPU that need not be present.
struct DescribedGpu {
  int compute_capability;  // 103 for 10.3
  int multiprocessors;
  int shared_memory_bytes;  // the most that a block can use
  int threads_per_multiprocessor;
  std::size_t memory_bytes;
};

/// Builds the plans of make_cudnn_attention for a described GPU. Errors: Unsupported, as make_cudnn_attention on such a
/// GPU.
void plan_cudnn_attention(const AttentionShape&, bool deterministic, const DescribedGpu&);

}  // namespace shakedown::cuda
