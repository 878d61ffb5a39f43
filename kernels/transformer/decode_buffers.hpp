// The memory of a decode, divided from one arena: weights, keys and values, and activations. On an arena without memory
// it gives the memory plan of a decode.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/transformer/arena.hpp"
#include "kernels/transformer/decode_ops.hpp"
#include "kernels/transformer/decode_spec.hpp"

namespace shakedown::training {

/// Each layer has activations of its own, so that a check can recompute each operation from the inputs that the device
/// had.
template <class Element, class Master>
struct DecodeBuffers {
  /// A sum over the ranks, and the summand of this rank. On one rank, both are the same matrix.
  struct Sum {
    Matrix<Element> own, all;
  };
  struct Layer {
    DecodeWeights<Element> qkv, o, gate_up, down;
    Element *norm1, *norm2, *bias;
    Element *keys, *values;
    Matrix<Element> projected, attended, gated;
    Sum middle, out;
    QuantizedRows qkv_input, o_input, gate_up_input, down_input;  // if several sequences are multiplied in fp8
  };

  /// `m` is the part of the model that this rank computes.
  DecodeBuffers(Arena& arena, const DecodeSpec& spec, const TransformerShape& m, std::size_t workspace_bytes)
      : is_quantized(spec.dtype == DType::fp8_e4m3),
        batch(static_cast<std::size_t>(spec.batch)),
        capacity(static_cast<std::size_t>(spec.context)) {
    const auto vector = [&](const char* what, std::size_t count) { return arena.take<Element>(what, count); };
    workspace = arena.take<std::byte>("workspace", workspace_bytes);
    arena.start(Use::weights);
    embedding = {vector("embedding", m.vocab * m.hidden), m.vocab, m.hidden, m.hidden};
    arena.start(Use::scratch);
    tokens = arena.take<int>("tokens", batch);
    rotations = arena.take<Master>("rotations", capacity * m.head_dim);
    staging = is_quantized ? vector("staging", std::max(2 * m.intermediate, m.vocab) * m.hidden) : nullptr;
    arena.start(Use::weights);
    head = weights(arena, m.vocab, m.hidden);
    final_norm = vector("gain", m.hidden);
    zeros = spec.rank > 0 ? vector("zeros", batch * m.hidden) : nullptr;
    layers.resize(m.layers);
    for (auto& layer : layers) {
      arena.start(Use::weights);
      layer.qkv = weights(arena, m.qkv_width(), m.hidden);
      layer.o = weights(arena, m.hidden, m.q_width());
      layer.gate_up = weights(arena, 2 * m.intermediate, m.hidden);
      layer.down = weights(arena, m.hidden, m.intermediate);
      layer.norm1 = vector("gain", m.hidden);
      layer.norm2 = vector("gain", m.hidden);
      layer.bias = m.qkv_bias ? vector("bias", m.qkv_width()) : nullptr;
      arena.start(Use::cache);
      layer.keys = vector("keys", batch * m.kv_width() * capacity);
      layer.values = vector("values", batch * m.kv_width() * capacity);
    }
    take_activations(arena, m, static_cast<std::size_t>(spec.tp));
  }

  bool is_quantized;
  std::size_t batch, capacity;
  std::byte* workspace;
  Matrix<Element> embedding, all_logits;
  Sum x;
  int* tokens;
  Master* rotations;
  Element *staging, *final_norm, *zeros;
  DecodeWeights<Element> head;
  QuantizedRows head_input;
  std::vector<Layer> layers;
  std::pair<void*, std::size_t> activations;

 private:
  DecodeWeights<Element> weights(Arena& arena, std::size_t rows, std::size_t cols) const {
    if (!is_quantized) return {{arena.take<Element>("weights", rows * cols), rows, cols, cols}, {}};
    return {{},
            {{arena.take<std::uint8_t>("weights", rows * cols), rows, cols, cols}, arena.take<float>("scales", rows)}};
  }

  void take_activations(Arena& arena, const TransformerShape& m, std::size_t ranks) {
    const auto matrix = [&](std::size_t cols) {
      return Matrix<Element>{arena.take<Element>("activations", batch * cols), batch, cols, cols};
    };
    const auto rows_of_fp8 = [&](std::size_t cols) -> QuantizedRows {
      if (!is_quantized || batch == 1) return {};
      return {{arena.take<std::uint8_t>("activations", batch * cols), batch, cols, cols},
              arena.take<float>("activations", batch)};
    };
    const auto sum = [&] {
      const auto own = matrix(m.hidden);
      return Sum{own, ranks > 1 ? matrix(m.hidden) : own};
    };
    arena.start(Use::activations);
    const auto begin = arena.bytes();
    x = sum();
    for (auto& layer : layers) {
      layer.projected = matrix(m.qkv_width());
      layer.attended = matrix(m.q_width());
      layer.middle = sum();
      layer.gated = matrix(m.intermediate);
      layer.out = sum();
      layer.qkv_input = rows_of_fp8(m.hidden);
      layer.o_input = rows_of_fp8(m.q_width());
      layer.gate_up_input = rows_of_fp8(m.hidden);
      layer.down_input = rows_of_fp8(m.intermediate);
    }
    head_input = rows_of_fp8(m.hidden);
    const auto rows = ranks * batch;
    all_logits = {arena.take<Element>("activations", rows * m.vocab), rows, m.vocab, m.vocab};
    activations = {x.own.data, arena.bytes() - begin};
  }
};

/// The memory of a decode. `element` and `master` are the sizes of the two types: 2 and 4 for bf16 with f32. Errors:
/// std::invalid_argument for sizes that no backend has, and those of decode_shape.
Plan plan(const DecodeSpec&, std::size_t element, std::size_t master, std::size_t workspace_bytes);

/// Returns the memory of a decode with the types of its spec on a GPU, without the workspace of a backend. Errors:
/// those of decode_shape.
Plan planned(const DecodeSpec&);

}  // namespace shakedown::training
