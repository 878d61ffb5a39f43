// Decode: the generation of one token for each sequence of a batch, after the other tokens of its context. One GPU
// computes a whole model, or its part of a model that several GPUs share.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

#include "kernels/ops/operation.hpp"
#include "kernels/transformer/shape.hpp"

namespace shakedown {

/// Every rank has the same tokens. Without tensor parallelism, it also has the same random weights, keys and values.
struct DecodeSpec {
  static constexpr std::string_view description = "the decode of one token";

  std::string model;  // a training::preset like Llama
  /// fp8_e4m3: weights of fp8 with one scale factor for each row; for several sequences, the inputs of products, too.
  /// Everything else is bf16 (host: f32 or f64).
  DType dtype = DType::bf16;
  int batch = 1;
  /// Tokens that attention reads, including the new token.
  int context = 1;
  /// The number of GPUs that share the model by tensor parallelism. One of them is measured, without the sums between
  /// GPUs.
  int share = 1;
  /// The number of ranks that share the model by tensor parallelism, with the sums between them, and the part of this
  /// rank. All ranks of the job have a part.
  int tp = 1, rank = 0;
  std::optional<int> layers = std::nullopt;  // the first layers of the model; nullopt: all
};

/// Returns the part of the model that one GPU computes. Errors: std::invalid_argument if the model is unknown, is not
/// like Llama, or is not divisible.
inline training::TransformerShape decode_shape(const DecodeSpec& s) {
  auto shape = training::preset(s.model).model;
  if (shape.norm != training::Norm::rms || shape.mlp != training::Mlp::swiglu ||
      shape.positions != training::Positions::rope) {
    throw std::invalid_argument("decode of \"" + s.model + "\" is not supported: choose a model like Llama");
  }
  if (s.layers) shape.layers = static_cast<std::size_t>(*s.layers);
  if (s.share > 1 && s.tp > 1) throw std::invalid_argument("decode: choose share:N or tp:N, not both");
  return training::part_of(shape, s.share * s.tp);
}

/// Returns the key, such as decode/model:llama_70b/dtype:bf16/batch:1/context:4096[/share:8][/tp:2][/layers:1].
inline std::string key(const DecodeSpec& s) {
  Key key("decode");
  key.set("model", s.model).set("dtype", s.dtype == DType::fp8_e4m3 ? "fp8" : name(s.dtype));
  key.set("batch", s.batch).set("context", s.context);
  if (s.share > 1) key.set("share", s.share);
  if (s.tp > 1) key.set("tp", s.tp);
  return key.set("layers", s.layers).text();
}

/// Returns the numbers of weights that each token reads: those of the layers, and of the head.
inline double decode_weights(const training::TransformerShape& m) {
  const double of_layer =
      static_cast<double>(m.hidden) * static_cast<double>(m.qkv_width() + m.q_width() + 3 * m.intermediate);
  return static_cast<double>(m.layers) * of_layer + static_cast<double>(m.hidden) * static_cast<double>(m.vocab);
}

/// Counts the products and attention. Bytes are the weights, and the keys and values of the context, read once.
inline Cost cost(const DecodeSpec& s) {
  const auto m = decode_shape(s);
  const double batch = s.batch, layers = static_cast<double>(m.layers), weights = decode_weights(m);
  const double attention = 4.0 * s.context * static_cast<double>(m.q_width()) * layers;
  const double cache = 2.0 * s.context * static_cast<double>(m.kv_width()) * layers;
  const double element = s.dtype == DType::fp8_e4m3 ? 2 : static_cast<double>(size_of(s.dtype));
  return {batch * (2 * weights + attention), weights * static_cast<double>(size_of(s.dtype)) + batch * cache * element};
}

/// Returns the bytes of its memory (decode_buffers.hpp), without the workspace of a backend.
std::size_t footprint(const DecodeSpec&);

}  // namespace shakedown
