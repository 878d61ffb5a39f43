// A model, or one rank's part of it, that decodes one token for each sequence of a batch. The ranks of a tensor
// parallel group share heads, columns of the MLP, and tokens of the vocabulary (Shoeybi et al., "Megatron-LM", 2019).
#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>
#include <vector>

#include "kernels/transformer/decode_buffers.hpp"
#include "kernels/transformer/initial_values.hpp"

namespace shakedown::training {

/// A model, its keys and values, and the activations of one token of each sequence.
template <class Ops>
class Decoder {
 public:
  using Element = typename Ops::Element;
  using Master = typename Ops::Master;
  using Buffers = DecodeBuffers<Element, Master>;

  /// Allocates all memory, and fills weights with random numbers. Errors: the backend's exception if there is not
  /// enough memory.
  Decoder(const DecodeSpec& spec, Ops& ops)
      : spec_(spec),
        shape_(decode_shape(spec)),
        ops_(ops),
        planned_(place(nullptr).first),
        memory_(ops.allocate(planned_)),
        buffers_(place(memory_.data()).second) {
    ops_.use_workspace(buffers_.workspace);
    write_weights();
  }

  using Sum = typename Buffers::Sum;
  using Layer = typename Buffers::Layer;

  /// Queues the computation of the logits of one token of each sequence at this position. Collective over the ranks
  /// that share the model.
  void step(std::size_t position) {
    ops_.embed(buffers_.embedding, buffers_.tokens, buffers_.x.own);
    add_up(buffers_.x);
    for (std::size_t l = 0; l < buffers_.layers.size(); ++l) {
      ops_.project(qkv_product(l));
      ops_.attend(attention(l, position));
      ops_.project(o_product(l));
      add_up(buffers_.layers[l].middle);
      ops_.project(gate_up_product(l));
      ops_.project(down_product(l));
      add_up(buffers_.layers[l].out);
    }
    ops_.project(head_product());
    if (spec_.tp > 1) ops_.gather(logits(), buffers_.all_logits);
  }

  // The products of a layer and of the head, with the operands that `step` uses.
  DecodeProduct<Element> qkv_product(std::size_t l) const {
    const auto& layer = buffers_.layers[l];
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
    const auto& layer = buffers_.layers[l];
    return {.d = layer.middle.own,
            .x = layer.attended,
            .quantized = layer.o_input,
            .w = layer.o,
            .residual = residual(input(l)),
            .next = layer.gate_up,
            .is_next_gated = true};
  }
  DecodeProduct<Element> gate_up_product(std::size_t l) const {
    const auto& layer = buffers_.layers[l];
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
    const auto& layer = buffers_.layers[l];
    return {.d = layer.out.own,
            .x = layer.gated,
            .quantized = layer.down_input,
            .w = layer.down,
            .residual = residual(layer.middle.all),
            .next = l + 1 < buffers_.layers.size() ? buffers_.layers[l + 1].qkv : buffers_.head};
  }
  DecodeProduct<Element> head_product() const {
    return {.d = logits(),
            .x = input(buffers_.layers.size()),
            .quantized = buffers_.head_input,
            .w = buffers_.head,
            .gain = buffers_.final_norm,
            .norm_eps = shape_.norm_eps};
  }
  DecodeAttention<Element, Master> attention(std::size_t l, std::size_t position) const {
    const auto& layer = buffers_.layers[l];
    return {.qkv = layer.projected,
            .out = layer.attended,
            .keys = layer.keys,
            .values = layer.values,
            .rotation = buffers_.rotations + position * shape_.head_dim,
            .heads = shape_.heads,
            .kv_heads = shape_.kv_heads,
            .head_dim = shape_.head_dim,
            .capacity = capacity(),
            .position = position};
  }

  const TransformerShape& shape() const { return shape_; }
  const std::vector<Layer>& layers() const { return buffers_.layers; }
  std::size_t batch() const { return buffers_.batch; }
  std::size_t capacity() const { return buffers_.capacity; }
  /// Returns the input of a layer, or of the head.
  Matrix<Element> input(std::size_t l) const { return l == 0 ? buffers_.x.all : buffers_.layers[l - 1].out.all; }
  const Sum& embedded() const { return buffers_.x; }
  Matrix<Element> embedding() const { return buffers_.embedding; }
  /// Returns the logits of this rank's part of the vocabulary.
  Matrix<Element> logits() const { return buffers_.all_logits.row_range(rank() * batch(), batch()); }
  /// Returns the logits of all ranks, one after the other.
  Matrix<Element> all_logits() const { return buffers_.all_logits; }
  /// Returns the whole memory, most of which are weights.
  std::pair<const std::byte*, std::size_t> memory() const { return {memory_.data(), planned_}; }

  void set_tokens(const std::vector<int>& tokens) {
    own_rows_ = tokens;
    const auto rows = static_cast<int>(shape_.vocab), first = static_cast<int>(rank()) * rows;
    for (int& row : own_rows_) row = row >= first && row < first + rows ? row - first : -1;
    ops_.copy_in(buffers_.tokens, own_rows_.data(), batch() * sizeof(int));
  }
  /// Returns the row of this rank's embedding for the token of each sequence; -1: another rank has it.
  const std::vector<int>& own_rows() const { return own_rows_; }

  /// Sets keys and values of positions 0 to position - 1 to random numbers, and poisons the others.
  void fill_cache(std::size_t position) {
    const auto d = shape_.head_dim, heads = batch() * shape_.kv_heads;
    std::uint64_t number = numbers_of_cache;
    for (const auto& layer : buffers_.layers) {
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
    ops_.set_bytes(buffers_.activations.first, 0xff, buffers_.activations.second);
    ops_.synchronize();
  }

 private:
  static constexpr std::uint64_t numbers_of_cache = 1 << 20, numbers_of_weights = 1 << 16;

  std::size_t rank() const { return static_cast<std::size_t>(spec_.rank); }
  std::size_t ranks() const { return static_cast<std::size_t>(spec_.tp); }

  void add_up(const Sum& sum) {
    if (spec_.tp > 1) ops_.add_up(sum.own, sum.all);
  }
  /// Returns what the summand of this rank includes of the residual stream: all of it on the first rank. Other ranks
  /// add zeros, because all ranks must tune the same products.
  const Element* residual(const Matrix<Element>& stream) const {
    return spec_.rank == 0 ? stream.data : buffers_.zeros;
  }

  /// Divides the memory at `base`, and returns its bytes.
  std::pair<std::size_t, Buffers> place(std::byte* base) {
    Arena arena(base);
    Buffers buffers(arena, spec_, shape_, ops_.workspace_bytes(shape_, spec_));
    return {arena.bytes(), std::move(buffers)};
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
    return w.plain ? w.plain : Matrix<Element>{buffers_.staging, w.rows(), w.cols(), w.cols()};
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
    draw_rows(buffers_.embedding, {m.vocab}, 1, ++number);
    rows(buffers_.head, {m.vocab});
    gain(buffers_.final_norm);
    if (buffers_.zeros != nullptr) ops_.set_bytes(buffers_.zeros, 0, batch() * m.hidden * sizeof(Element));
    for (const auto& layer : buffers_.layers) {
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
    ops_.copy_in(buffers_.rotations, table.data(), table.size() * sizeof(Master));
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
  std::size_t planned_;
  decltype(std::declval<Ops>().allocate(0)) memory_;
  Buffers buffers_;
  std::vector<int> own_rows_;
};

}  // namespace shakedown::training
