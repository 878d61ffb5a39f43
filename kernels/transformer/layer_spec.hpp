// The forward pass of one transformer layer, as benchmarks of fp8 define it: hidden size 8192, 64 heads, an MLP of four
// times the hidden size.
#pragma once

#include <stdexcept>
#include <string>

#include "kernels/ops/operation.hpp"
#include "kernels/transformer/shape.hpp"

namespace shakedown {

/// x + attention, then + MLP, each after a LayerNorm; GELU, no biases. Every rank has the same random weights and
/// tokens.
struct LayerSpec {
  static constexpr std::string_view description = "the forward pass of a transformer layer";

  std::string model;  // h8192; h512 for tests on a GPU, h64 for machines without one
  /// Type of weights and activations. fp8_e4m3: products of fp8 with one scale factor for each row and fast
  /// accumulation; the rest is bf16 (host: f32).
  DType dtype = DType::bf16;
  int batch = 1, seq = 1;
  bool causal = true;
};

/// Errors: std::invalid_argument, listing the known names.
inline training::TransformerShape layer_shape(const LayerSpec& s) {
  training::TransformerShape shape{.layers = 1,
                                   .hidden = 8192,
                                   .heads = 64,
                                   .kv_heads = 64,
                                   .head_dim = 128,
                                   .intermediate = 4 * 8192,
                                   .vocab = 0,
                                   .norm_eps = 1e-5,
                                   .norm = training::Norm::layer,
                                   .mlp = training::Mlp::gelu};
  shape.causal = s.causal;
  shape.qkv_bias = false;
  if (s.model == "h8192") return shape;
  if (s.model != "h512" && s.model != "h64") {
    throw std::invalid_argument("layer model \"" + s.model + "\" is not one of h8192, h512 and h64");
  }
  shape.hidden = s.model == "h512" ? 512 : 64;
  shape.heads = shape.kv_heads = 4;
  shape.head_dim = shape.hidden / 4;
  shape.intermediate = 4 * shape.hidden;
  return shape;
}

/// Returns the key, such as layer/model:h8192/dtype:fp8/batch:32/seq:4096[/mask:none].
inline std::string key(const LayerSpec& s) {
  Key key("layer");
  key.set("model", s.model).set("dtype", s.dtype == DType::fp8_e4m3 ? "fp8" : name(s.dtype));
  key.set("batch", s.batch).set("seq", s.seq);
  if (!s.causal) key.set("mask", "none");
  return key.text();
}

inline double tokens(const LayerSpec& s) { return static_cast<double>(s.batch) * s.seq; }

/// Counts four products, and the two of attention, of which a causal mask leaves half.
inline Cost cost(const LayerSpec& s) {
  const auto shape = layer_shape(s);
  const auto h = static_cast<double>(shape.hidden), wide = static_cast<double>(shape.intermediate);
  const double linears = 2 * h * (3 * h + h + 2 * wide), attention = 4 * h * s.seq * (s.causal ? 0.5 : 1);
  return {tokens(s) * (linears + attention), 0};
}

/// Returns the bytes of the weights and of all activations, which the check reads, in the largest type.
inline std::size_t footprint(const LayerSpec& s) {
  const auto shape = layer_shape(s);
  const auto h = shape.hidden, rows = static_cast<std::size_t>(s.batch) * static_cast<std::size_t>(s.seq);
  const std::size_t weights = h * (4 * h + 2 * shape.intermediate),
                    activations = rows * (9 * h + 2 * shape.intermediate);
  const std::size_t element = s.dtype == DType::fp8_e4m3 ? 2 : size_of(s.dtype);
  return (weights + activations) * element;
}

}  // namespace shakedown
