// A model, or one rank's part of it, that decodes one token for each sequence of a batch. The ranks of a tensor
// parallel group share heads, columns of the MLP, and tokens of the vocabulary (Shoeybi et al., "Megatron-LM", 2019).
#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>
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

  /// Queues the computation of the logits of one token of each sequence at this position. Collective over the ranks
  /// that share the model.
  void step(std::size_t position) {
    ops_.embed(embedding_, tokens_, x_.own);
    add_up(x_);
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      ops_.project(qkv_product(l));
      ops_.attend(attention(l, position));
      ops_.project(o_product(l));
      add_up(layers_[l].middle);
      ops_.project(gate_up_product(l));
      ops_.project(down_product(l));
      add_up(layers_[l].out);
    }
    ops_.project(head_product());
    if (spec_.tp > 1) ops_.gather(logits(), all_logits_);
  }

  // The products of a layer and of the head, with the operands that `step` uses.
  DecodeProduct<Element> qkv_product(std::size_t l) const {
    const auto& layer = layers_[l];
    return {.d = layer.projected,
            .x = input(l),
            .quantized = layer.qkv_input,
            .w = layer.qkv,
            .gain = layer.norm1,
            .bias = layer.bias,
            .norm_eps = shape_.norm_eps,
            .next = layer.o};
  }
  DecodeProduct<Element> o_product(std::size_t l) const {
    const auto& layer = layers_[l];
    return {.d = layer.middle.own,
            .x = layer.attended,
            .quantized = layer.o_input,
            .w = layer.o,
            .residual = residual(input(l)),
            .next = layer.gate_up,
            .is_next_gated = true};
  }
  DecodeProduct<Element> gate_up_product(std::size_t l) const {
    const auto& layer = layers_[l];
    return {.d = layer.gated,
            .x = layer.middle.all,
            .quantized = layer.gate_up_input,
            .w = layer.gate_up,
            .gain = layer.norm2,
            .is_gated = true,
            .norm_eps = shape_.norm_eps,
            .next = layer.down};
  }
  DecodeProduct<Element> down_product(std::size_t l) const {
    const auto& layer = layers_[l];
    return {.d = layer.out.own,
            .x = layer.gated,
            .quantized = layer.down_input,
            .w = layer.down,
            .residual = residual(layer.middle.all),
            .next = l + 1 < layers_.size() ? layers_[l + 1].qkv : head_};
  }
  DecodeProduct<Element> head_product() const {
    return {.d = logits(),
            .x = input(layers_.size()),
            .quantized = head_input_,
            .w = head_,
            .gain = final_norm_,
            .norm_eps = shape_.norm_eps};
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
  Matrix<Element> input(std::size_t l) const { return l == 0 ? x_.all : layers_[l - 1].out.all; }
  const Sum& embedded() const { return x_; }
  Matrix<Element> embedding() const { return embedding_; }
  /// Returns the logits of this rank's part of the vocabulary.
  Matrix<Element> logits() const { return all_logits_.row_range(rank() * batch(), batch()); }
  /// Returns the logits of all ranks, one after the other.
  Matrix<Element> all_logits() const { return all_logits_; }
  /// Returns the whole memory, most of which are weights.
  std::pair<const std::byte*, std::size_t> memory() const { return {memory_.data(), planned_}; }

  void set_tokens(const std::vector<int>& tokens) {
    own_rows_ = tokens;
    const auto rows = static_cast<int>(shape_.vocab), first = static_cast<int>(rank()) * rows;
    for (int& row : own_rows_) row = row >= first && row < first + rows ? row - first : -1;
    ops_.copy_in(tokens_, own_rows_.data(), batch() * sizeof(int));
  }
  /// Returns the row of this rank's embedding for the token of each sequence; -1: another rank has it.
  const std::vector<int>& own_rows() const { return own_rows_; }

  /// Sets keys and values of positions 0 to position - 1 to random numbers, and poisons the others.
  void fill_cache(std::size_t position) {
    const auto d = shape_.head_dim, heads = batch() * shape_.kv_heads;
    std::uint64_t number = numbers_of_cache;
    for (const auto& layer : layers_) {
      for (auto* const cache : {layer.keys, layer.values}) {
        ops_.set_bytes(cache, 0xff, heads * capacity() * d * sizeof(Element));
        const auto cols = shape_.kv_heads * position * d;
        ops_.fill_normal(Matrix<Element>{cache, heads, position * d, capacity() * d}, 1, ++number,
                         {.first = rank() * cols, .cols = cols, .stride = ranks() * cols});
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
  std::size_t rank() const { return static_cast<std::size_t>(spec_.rank); }
  std::size_t ranks() const { return static_cast<std::size_t>(spec_.tp); }

  void add_up(const Sum& sum) {
    if (spec_.tp > 1) ops_.add_up(sum.own, sum.all);
  }
  /// Returns what the summand of this rank includes of the residual stream: all of it on the first rank. Other ranks
  /// add zeros, because all ranks must tune the same products.
  const Element* residual(const Matrix<Element>& stream) const { return spec_.rank == 0 ? stream.data : zeros_; }

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
    zeros_ = spec_.rank > 0 ? vector("zeros", batch() * m.hidden) : nullptr;
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
    const auto rows_of_fp8 = [&](std::size_t cols) -> QuantizedRows {
      if (!is_quantized() || batch() == 1) return {};
      return {{arena.take<std::uint8_t>("activations", batch() * cols), batch(), cols, cols},
              arena.take<float>("activations", batch())};
    };
    const auto sum = [&] {
      const auto own = matrix(shape_.hidden);
      return Sum{own, spec_.tp > 1 ? matrix(shape_.hidden) : own};
    };
    const auto begin = arena.bytes();
    x_ = sum();
    for (auto& layer : layers_) {
      layer.projected = matrix(shape_.qkv_width());
      layer.attended = matrix(shape_.q_width());
      layer.middle = sum();
      layer.gated = matrix(shape_.intermediate);
      layer.out = sum();
      layer.qkv_input = rows_of_fp8(shape_.hidden);
      layer.o_input = rows_of_fp8(shape_.q_width());
      layer.gate_up_input = rows_of_fp8(shape_.hidden);
      layer.down_input = rows_of_fp8(shape_.intermediate);
    }
    head_input_ = rows_of_fp8(shape_.hidden);
    const auto rows = ranks() * batch();
    all_logits_ = {arena.take<Element>("activations", rows * shape_.vocab), rows, shape_.vocab, shape_.vocab};
    activations_ = {x_.own.data, arena.bytes() - begin};
  }

  /// Sets this rank's rows of a tensor. The tensor consists of parts, and this rank has that number of rows of each.
  void draw_rows(const Matrix<Element>& to, std::initializer_list<std::size_t> parts, double stddev,
                 std::uint64_t number) {
    std::size_t first = 0, of_whole = 0;
    for (const auto rows : parts) {
      ops_.fill_normal(to.row_range(first, rows), stddev, number, {.first = (of_whole + rank() * rows) * to.cols});
      first += rows;
      of_whole += ranks() * rows;
    }
  }
  void draw_columns(const Matrix<Element>& to, double stddev, std::uint64_t number) {
    ops_.fill_normal(to, stddev, number, {.first = rank() * to.cols, .cols = to.cols, .stride = ranks() * to.cols});
  }

  Matrix<Element> plain_or_staging(const DecodeWeights<Element>& w) const {
    return w.plain ? w.plain : Matrix<Element>{staging_, w.rows(), w.cols(), w.cols()};
  }
  void finish(const DecodeWeights<Element>& w) {
    if (!w.plain) ops_.quantize(plain_or_staging(w), w.quantized);
  }

  /// The variance of each product is that of its input.
  void write_weights() {
    std::uint64_t number = numbers_of_weights;
    const auto stddev = [](std::size_t inputs) { return 1 / std::sqrt(static_cast<double>(inputs)); };
    const auto rows = [&](const DecodeWeights<Element>& w, std::initializer_list<std::size_t> parts) {
      draw_rows(plain_or_staging(w), parts, stddev(w.cols()), ++number);
      finish(w);
    };
    const auto columns = [&](const DecodeWeights<Element>& w) {
      draw_columns(plain_or_staging(w), stddev(ranks() * w.cols()), ++number);
      finish(w);
    };
    const std::vector<Element> ones(shape_.hidden, Ops::to_element(1));
    const auto gain = [&](Element* to) { ops_.copy_in(to, ones.data(), ones.size() * sizeof(Element)); };
    const auto& m = shape_;
    draw_rows(embedding_, {m.vocab}, 1, ++number);
    rows(head_, {m.vocab});
    gain(final_norm_);
    if (zeros_ != nullptr) ops_.set_bytes(zeros_, 0, batch() * m.hidden * sizeof(Element));
    for (const auto& layer : layers_) {
      rows(layer.qkv, {m.q_width(), m.kv_width(), m.kv_width()});
      columns(layer.o);
      rows(layer.gate_up, {m.intermediate, m.intermediate});
      columns(layer.down);
      gain(layer.norm1);
      gain(layer.norm2);
      if (layer.bias == nullptr) continue;
      draw_rows({layer.bias, m.qkv_width(), 1, 1}, {m.q_width(), m.kv_width(), m.kv_width()}, 0.1, ++number);
    }
    const auto table = rotation_table<Master>(capacity(), shape_.head_dim, shape_.rope_theta);
    ops_.copy_in(rotations_, table.data(), table.size() * sizeof(Master));
    set_tokens(first_tokens());
  }

  /// Different sequences have different tokens.
  std::vector<int> first_tokens() const {
    std::vector<int> tokens(batch());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<int>((7 + 1009 * i) % (ranks() * shape_.vocab));
    }
    return tokens;
  }

  DecodeSpec spec_;
  TransformerShape shape_;
  Ops& ops_;
  std::size_t planned_ = 0;
  Matrix<Element> embedding_, all_logits_;
  Sum x_;
  int* tokens_ = nullptr;
  std::vector<int> own_rows_;
  Master* rotations_ = nullptr;
  Element *staging_ = nullptr, *final_norm_ = nullptr, *zeros_ = nullptr;
  DecodeWeights<Element> head_;
  QuantizedRows head_input_;
  std::vector<Layer> layers_;
  std::pair<void*, std::size_t> activations_;
  decltype(std::declval<Ops>().allocate(0)) memory_;
};

}  // namespace shakedown::training
