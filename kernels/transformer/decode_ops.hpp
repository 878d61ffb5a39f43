// The operations of decode that a backend implements for the model of decode.hpp. Each is queued, and all sequences of
// a batch have the same length.
#pragma once

#include "kernels/transformer/quantize.hpp"

namespace shakedown::training {

/// The weights of a product, one row for each output: plain, or of 8-bit floats. Only one of the two has data.
template <class Element>
struct DecodeWeights {
  Matrix<Element> plain;
  QuantizedRows quantized;

  std::size_t rows() const { return plain ? plain.rows : quantized.values.rows; }
  std::size_t cols() const { return plain ? plain.cols : quantized.values.cols; }
};

/// D = f(X) W' + bias + residual. With a gain, f is RMSNorm, rounded to Element; else f(X) is X. If the product is
/// gated, the first half of the rows of W are gates: D = silu(f(X) G') * (f(X) U'). The residual has D's stride.
template <class Element>
struct DecodeProduct {
  Matrix<Element> d;
  Matrix<Element> x;
  /// Memory for f(X), if the product multiplies rows of 8-bit floats with those of W.
  QuantizedRows quantized = {};
  DecodeWeights<Element> w;
  const Element *gain = nullptr, *bias = nullptr, *residual = nullptr;
  bool is_gated = false;
  double norm_eps = 0;
  /// The weights of the next product. The product may start to read them before it is complete.
  DecodeWeights<Element> next = {};
  bool is_next_gated = false;
};

/// Attention of one new token of each sequence. The function rotates the new queries and keys, stores the new keys and
/// values at `position`, and attends to positions 0 to `position`.
template <class Element, class Master>
struct DecodeAttention {
  Matrix<Element> qkv;  // queries, keys and values of the new tokens, before the rotation
  Matrix<Element> out;
  Element *keys = nullptr, *values = nullptr;  // batch x kv_heads x capacity x head_dim
  const Master* rotation = nullptr;            // of this position (rotation_table)
  std::size_t heads = 0, kv_heads = 0, head_dim = 0, capacity = 0, position = 0;
};

/// Relative errors: unit roundoffs of a stored result and of the accumulation (reference::gemm_tolerance), of
/// attention, and the unit roundoff of Element.
struct DecodeErrors {
  double u_out, u_acc, attention, u_element;
};

}  // namespace shakedown::training
