// A model that decodes one token for each sequence of a batch.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/transformer/arena.hpp"
#include "kernels/transformer/decode_ops.hpp"
#include "kernels/transformer/decode_spec.hpp"
#include "kernels/transformer/initial_values.hpp"

namespace shakedown::training {

/// A model, its keys and values, and the activations of one token of each sequence. Each layer has activations of its
/// own, so that a check can recompute each operation from the inputs that the device had.
template <class Ops>
class Decoder {
 public:
  using Element = typename Ops::Element;
  using Master = typename Ops::Master;

  /// Allocates all memory, and fills weights with random numbers. Errors: the backend's exception if there is not
  /// enough memory.
  Decoder(const DecodeSpec& spec, Ops& ops)
      : spec_(spec), shape_(decode_shape(spec)), ops_(ops), memory_(ops.allocate(planned_bytes())) {
    Arena arena(memory_.data());
    place(arena);
    write_weights();
  }

  struct Layer {
    DecodeWeights<Element> qkv, o, gate_up, down;
    Element *norm1, *norm2, *bias;
    Element *keys, *values;
    Matrix<Element> projected, attended, middle, gated, out;
  };

  /// Queues the computation of the logits of one token of each sequence at this position.
  void step(std::size_t position) {
    ops_.embed(embedding_, tokens_, x_);
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      ops_.project(qkv_product(l));
      ops_.attend(attention(l, position));
      ops_.project(o_product(l));
      ops_.project(gate_up_product(l));
      ops_.project(down_product(l));
    }
    ops_.project(head_product());
  }

  // The products of a layer and of the head, with the operands that `step` uses.
  DecodeProduct<Element> qkv_product(std::size_t l) const {
    const auto& layer = layers_[l];
    return {.d = layer.projected,
            .x = input(l),
            .w = layer.qkv,
            .gain = layer.norm1,
            .bias = layer.bias,
            .norm_eps = shape_.norm_eps,
            .next = layer.o};
  }
  DecodeProduct<Element> o_product(std::size_t l) const {
    const auto& layer = layers_[l];
    return {.d = layer.middle,
            .x = layer.attended,
            .w = layer.o,
            .residual = input(l).data,
            .next = layer.gate_up,
            .is_next_gated = true};
  }
  DecodeProduct<Element> gate_up_product(std::size_t l) const {
    const auto& layer = layers_[l];
    return {.d = layer.gated,
            .x = layer.middle,
            .w = layer.gate_up,
            .gain = layer.norm2,
            .is_gated = true,
            .norm_eps = shape_.norm_eps,
            .next = layer.down};
  }
  DecodeProduct<Element> down_product(std::size_t l) const {
    const auto& layer = layers_[l];
    return {.d = layer.out,
            .x = layer.gated,
            .w = layer.down,
            .residual = layer.middle.data,
            .next = l + 1 < layers_.size() ? layers_[l + 1].qkv : head_};
  }
  DecodeProduct<Element> head_product() const {
    return {.d = logits_, .x = input(layers_.size()), .w = head_, .gain = final_norm_, .norm_eps = shape_.norm_eps};
  }
  DecodeAttention<Element, Master> attention(std::size_t l, std::size_t position) const {
    const auto& layer = layers_[l];
    return {.qkv = layer.projected,
            .out = layer.attended,
            .keys = layer.keys,
            .values = layer.values,
            .rotation = rotations_ + position * shape_.head_dim,
            .heads = shape_.heads,
            .kv_heads = shape_.kv_heads,
            .head_dim = shape_.head_dim,
            .capacity = capacity(),
            .position = position};
  }

  const TransformerShape& shape() const { return shape_; }
  const std::vector<Layer>& layers() const { return layers_; }
  std::size_t batch() const { return static_cast<std::size_t>(spec_.batch); }
  std::size_t capacity() const { return static_cast<std::size_t>(spec_.context); }
  /// Returns the input of a layer, or of the head.
  Matrix<Element> input(std::size_t l) const { return l == 0 ? x_ : layers_[l - 1].out; }
  Matrix<Element> embedding() const { return embedding_; }
  Matrix<Element> logits() const { return logits_; }
  /// Returns the whole memory, most of which are weights.
  std::pair<const std::byte*, std::size_t> memory() const { return {memory_.data(), planned_}; }

  void set_tokens(const std::vector<int>& tokens) { ops_.copy_in(tokens_, tokens.data(), batch() * sizeof(int)); }

  /// Sets keys and values of positions 0 to position - 1 to random numbers, and poisons the others.
  void fill_cache(std::size_t position) {
    const auto d = shape_.head_dim, heads = batch() * shape_.kv_heads;
    std::uint64_t number = numbers_of_cache;
    for (const auto& layer : layers_) {
      for (auto* const cache : {layer.keys, layer.values}) {
        ops_.set_bytes(cache, 0xff, heads * capacity() * d * sizeof(Element));
        ops_.fill_normal(Matrix<Element>{cache, heads, position * d, capacity() * d}, 1, ++number);
      }
    }
    ops_.synchronize();
  }

  /// Overwrites all activations with NaN.
  void poison() {
    ops_.set_bytes(activations_.first, 0xff, activations_.second);
    ops_.synchronize();
  }

 private:
  static constexpr std::uint64_t numbers_of_cache = 1 << 20, numbers_of_weights = 1 << 16;

  bool is_quantized() const { return spec_.dtype == DType::fp8_e4m3; }

  std::size_t planned_bytes() {
    Arena counted;
    place(counted);
    return planned_ = counted.bytes();
  }

  void place(Arena& arena) {
    ops_.use_workspace(arena.take<std::byte>("workspace", ops_.workspace_bytes(shape_, spec_)));
    const auto& m = shape_;
    const auto vector = [&](const char* what, std::size_t count) { return arena.take<Element>(what, count); };
    embedding_ = {vector("embedding", m.vocab * m.hidden), m.vocab, m.hidden, m.hidden};
    tokens_ = arena.take<int>("tokens", batch());
    rotations_ = arena.take<Master>("rotations", capacity() * m.head_dim);
    staging_ = is_quantized() ? vector("staging", std::max(2 * m.intermediate, m.vocab) * m.hidden) : nullptr;
    head_ = weights(arena, m.vocab, m.hidden);
    final_norm_ = vector("gain", m.hidden);
    layers_.resize(m.layers);
    for (auto& layer : layers_) {
      layer.qkv = weights(arena, m.qkv_width(), m.hidden);
      layer.o = weights(arena, m.hidden, m.q_width());
      layer.gate_up = weights(arena, 2 * m.intermediate, m.hidden);
      layer.down = weights(arena, m.hidden, m.intermediate);
      layer.norm1 = vector("gain", m.hidden);
      layer.norm2 = vector("gain", m.hidden);
      layer.bias = m.qkv_bias ? vector("bias", m.qkv_width()) : nullptr;
      layer.keys = vector("keys", batch() * m.kv_width() * capacity());
      layer.values = vector("values", batch() * m.kv_width() * capacity());
    }
    place_activations(arena);
  }

  DecodeWeights<Element> weights(Arena& arena, std::size_t rows, std::size_t cols) const {
    if (!is_quantized()) return {{arena.take<Element>("weights", rows * cols), rows, cols, cols}, {}};
    return {{},
            {{arena.take<std::uint8_t>("weights", rows * cols), rows, cols, cols}, arena.take<float>("scales", rows)}};
  }

  void place_activations(Arena& arena) {
    const auto matrix = [&](std::size_t cols) {
      return Matrix<Element>{arena.take<Element>("activations", batch() * cols), batch(), cols, cols};
    };
    const auto begin = arena.bytes();
    x_ = matrix(shape_.hidden);
    for (auto& layer : layers_) {
      layer.projected = matrix(shape_.qkv_width());
      layer.attended = matrix(shape_.q_width());
      layer.middle = matrix(shape_.hidden);
      layer.gated = matrix(shape_.intermediate);
      layer.out = matrix(shape_.hidden);
    }
    logits_ = matrix(shape_.vocab);
    activations_ = {x_.data, arena.bytes() - begin};
  }

  /// The variance of each product is that of its input.
  void write_weights() {
    std::uint64_t number = numbers_of_weights;
    const auto normal = [&](const DecodeWeights<Element>& w) {
      const auto plain = w.plain ? w.plain : Matrix<Element>{staging_, w.rows(), w.cols(), w.cols()};
      ops_.fill_normal(plain, 1 / std::sqrt(static_cast<double>(plain.cols)), ++number);
      if (!w.plain) ops_.quantize(plain, w.quantized);
    };
    const std::vector<Element> ones(shape_.hidden, Ops::to_element(1));
    const auto gain = [&](Element* to) { ops_.copy_in(to, ones.data(), ones.size() * sizeof(Element)); };
    ops_.fill_normal(embedding_, 1, ++number);
    normal(head_);
    gain(final_norm_);
    for (const auto& layer : layers_) {
      for (const auto* w : {&layer.qkv, &layer.o, &layer.gate_up, &layer.down}) normal(*w);
      gain(layer.norm1);
      gain(layer.norm2);
      if (layer.bias != nullptr)
        ops_.fill_normal({layer.bias, 1, shape_.qkv_width(), shape_.qkv_width()}, 0.1, ++number);
    }
    const auto table = rotation_table<Master>(capacity(), shape_.head_dim, shape_.rope_theta);
    ops_.copy_in(rotations_, table.data(), table.size() * sizeof(Master));
    set_tokens(first_tokens());
  }

  /// Different sequences have different tokens.
  std::vector<int> first_tokens() const {
    std::vector<int> tokens(batch());
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int>((7 + 1009 * i) % shape_.vocab);
    return tokens;
  }

  DecodeSpec spec_;
  TransformerShape shape_;
  Ops& ops_;
  std::size_t planned_ = 0;
  Matrix<Element> embedding_, x_, logits_;
  int* tokens_ = nullptr;
  Master* rotations_ = nullptr;
  Element *staging_ = nullptr, *final_norm_ = nullptr;
  DecodeWeights<Element> head_;
  std::vector<Layer> layers_;
  std::pair<void*, std::size_t> activations_;
  decltype(std::declval<Ops>().allocate(0)) memory_;
};

}  // namespace shakedown::training
