// The memory of a training step, divided from one arena: weights, trainable parameters, activations kept for the
// backward pass, and scratch that layers share. On an arena without memory it gives the memory plan of a step.
#pragma once

#include <algorithm>
#include <optional>

#include "kernels/transformer/arena.hpp"
#include "kernels/transformer/ops.hpp"
#include "kernels/transformer/step_spec.hpp"

namespace shakedown::training {

/// How an adapter is combined with its projection.
enum class AdapterPath {
  separate,  // Y = X W', then Y += U (sB)' for each part: additional passes over Y
  augmented  // Y = [X | U] [W | sB]' in one product, and likewise backward
};

/// One training step on one rank.
struct StepShape {
  TransformerShape model;
  LoraShape lora;
  Trains trains = Trains::adapters;
  std::size_t batch, seq;        // sequences of a micro-batch, and tokens per sequence
  std::size_t accumulation = 1;  // micro-batches per update
  int ranks = 1;
  Retain retain = Retain::rebuild;
  AdapterPath path = AdapterPath::augmented;
  std::size_t loss_chunk = 3584;  // number of rows of logits in memory at a time
  DType sums = DType::f32;        // the type of gradients in transfers between ranks, if masters are f32
  /// Minimum number of gradients that are summed over ranks together; 0: not decided, any number up to all of them.
  std::size_t bucket = 0;
  Shard shard = Shard::none;
  DType masters = DType::f32;  // bf16: the state is a Bf16State
  StateMemory state = StateMemory::device;
  int rank = 0;  // 0 to `ranks` - 1; it selects the part of the sharded state
  /// Size of the tensor parallel group: each of the `ranks` consists of this number of ranks that compute the model
  /// together (part_of), and this rank is one of them. Between projections each rank has a part of the tokens (sequence
  /// parallel, Korthikanti et al. 2022, arXiv 2205.05198).
  int tensor = 1, tensor_rank = 0;
  /// Products of the layers' projections in 8-bit floats with one factor for each row: of frozen weights with their
  /// adapters, forward and for the gradient of their input; of trained weights, also for their own gradient. A frozen
  /// head's product is quantized only forward: its gradient has a few large values and many small ones in each row.
  bool quantized = false;

  std::size_t tokens() const { return batch * seq; }  // number of tokens in a micro-batch
  std::size_t own_tokens() const { return tokens() / static_cast<std::size_t>(tensor); }
  TransformerShape part() const { return part_of(model, tensor); }
  AttentionShape attention() const {
    const auto m = part();
    return {batch, seq, m.heads, m.kv_heads, m.head_dim, m.causal};
  }
  /// True if the weights are their own masters.
  bool in_bf16() const { return masters == DType::bf16; }
  /// True if ranks share the state. Each rank then updates its own part of it.
  bool sharded() const { return shard != Shard::none; }
  int shares() const { return sharded() ? ranks : 1; }
  /// Returns the layout of the flat arrays. Shares begin at multiples of 256 bytes of f32.
  FlatLayout layout() const {
    return flat_layout(part(), lora, trains, sharded() ? 64 * static_cast<std::size_t>(ranks) : 1, tensor > 1);
  }
  std::vector<ParameterTensor> tensors() const { return layout().tensors; }
  /// Returns the pieces of the parameters that this rank updates.
  std::vector<Piece> pieces() const { return training::pieces(layout(), shares(), sharded() ? rank : 0); }
};

/// Number of layers whose weights and gradients are complete at a time if ranks share them.
inline constexpr std::size_t layers_in_turns = 3;
/// Number of all slots, including those of the head, the embeddings and replicated parameters.
inline constexpr std::size_t slots_in_turns = layers_in_turns + 3;

/// Number of columns of weights that are read together for a check.
inline constexpr std::size_t columns_at_once = 8;

/// Number of steps whose records are kept until they are read.
inline constexpr std::size_t records_kept = 256;

/// Returns the step that a spec describes. Errors: std::invalid_argument for an unknown model, a size below one, or
/// incompatible settings.
template <Trains trains>
StepShape step_shape(const StepSpec<trains>&);

/// Errors: std::invalid_argument for incompatible settings.
void check(const StepShape&);

template <class Element, class Master>
struct Buffers {
  /// The weights of one layer. FusedLinear describes the matrices. The bias is null if the model has none.
  struct Layer {
    NormWeights<Element> norm1, norm2;
    std::array<Matrix<Element>, linears.size()> weights;
    std::array<Element*, linears.size()> biases = {};
    /// [W | sB] by rows and [W ; A] by columns, if products are quantized. All trained weights use the same memory in
    /// turn, because each is quantized once for the forward pass and once for the backward pass of a micro-batch.
    std::array<QuantizedRows, linears.size()> quantized = {}, transposed = {};
  };

  /// Activations that the forward pass of one layer keeps for its backward pass. Inputs of projections have room for U
  /// after their columns; outputs that become gradients in place have room for dU. n1 is the output of norm 1, and
  /// `middle` the sum after the attention. n2 is the output of norm 2 in a pre-norm model, otherwise its input. In
  /// tensor parallel, each rank has all tokens of the inputs and outputs of projections, and only its own tokens
  /// between a sum and a norm: the statistics, `middle`, n2 or x.
  struct Kept {
    Matrix<Element> n1, qkv, attended, middle, n2, gate_up, h;
    /// U = X A' of the projections; stored after the columns of X if X is kept, otherwise in separate memory.
    Matrix<Element> u_qkv, u_o, u_gate_up, u_down;
    NormStatistics<Master> norm1, norm2;
    Master* lse;
  };

  /// Location of a unit of the flat array: the complete unit, whose weights the products read and whose gradient they
  /// write, and this rank's share. The share is the whole unit, a part of it, or separate memory. There are no weights
  /// if they are frozen.
  struct UnitPlace {
    std::size_t slot;  // units with the same slot use the same memory in turn
    Element *weights, *own_weights;
    Master *gradient, *own_gradient;
    std::size_t own_offset, own_count;  // position in the arrays of `state`
  };

  /// Divides memory of the device and of its host. Only a state in the host's memory takes some of the latter.
  Buffers(Arena& arena, Arena& host, const StepShape& s, std::size_t workspace_bytes) {
    const auto m = s.part();
    for (const auto linear : linears) shape[static_cast<std::size_t>(linear)] = fused(m, s.lora, linear);
    const auto layout = s.layout();
    state.count = layout.count() / static_cast<std::size_t>(s.shares());
    if (s.trains == Trains::adapters) take_weights(arena, s);
    place_units(arena, s, layout);
    if (s.trains == Trains::all) place_weights(s, layout);

    take_state(s.state == StateMemory::host ? host : arena, s);
    take_activations(arena, s);
    arena.start(Use::scratch);
    take_scratch(arena, s);

    inputs = arena.take<int>("inputs", s.accumulation * s.tokens());
    targets = arena.take<int>("targets", s.accumulation * s.tokens());
    if (s.trains == Trains::all) order = arena.take<int>("order of inputs", s.accumulation * s.tokens());
    if (m.positions == Positions::rope) rotations = arena.take<Master>("rotations", s.seq * m.head_dim);
    losses = arena.take<Master>("losses", s.tokens());
    records = arena.take<Record>("records", 1 + records_kept);
    workspace = arena.take<std::byte>("workspace", workspace_bytes);
  }

  const FusedLinear& of(Linear linear) const { return shape[static_cast<std::size_t>(linear)]; }

  std::array<FusedLinear, linears.size()> shape;
  QuantizedRows quantized_head;     // by rows, if products are quantized
  Element* columns = nullptr;       // some columns of quantized weights, for their check
  QuantizedRows quantized;          // memory for the quantized input of a product, if products are quantized
  QuantizedRows second;             // the same for the second operand of the gradient of trained weights
  Matrix<Element> embedding, head;  // vocab x hidden; one matrix if tied
  Matrix<Element> positions;        // context x hidden, if learned
  Element* head_bias = nullptr;
  NormWeights<Element> final_norm;  // null in a post-norm model
  std::vector<Layer> layers;
  FlatState<Master> state{};  // its gradient covers all units, or only this rank's share if units use slots in turn
  /// Takes the place of the parameters and moments of `state`, which are then null, if the state is in bf16.
  Bf16State<Element, Master> bf16_state{};
  std::vector<UnitPlace> units;

  std::vector<Matrix<Element>> x;  // the residual stream before each layer, and after the last
  std::vector<Kept> kept;          // one buffer for each layer, or one that all layers share
  NormStatistics<Master> final_statistics;

  Matrix<Element> dx;  // gradient of the residual stream, with room for dU of o and down
  Matrix<Element>
      narrow;  // tokens x hidden: final norm and its gradient, gradients of n1, n2 and of the attention's output
  Matrix<Element> d_qkv;   // with room for dU
  Matrix<Element> wide;    // tokens x intermediate: h if it is not kept (with room for U), and its gradient
  Matrix<Element> logits;  // loss_chunk x vocab, in the same memory
  int *inputs, *targets;   // accumulation x tokens
  int* order = nullptr;    // rows of each micro-batch, sorted by their inputs; only if the embedding is trained
  Master *rotations = nullptr, *losses;
  Record* records;  // the record of the current step, followed by those of the last steps
  std::byte* workspace;

 private:
  static Matrix<Element> matrix(Arena& arena, const std::string& name, std::size_t rows, std::size_t cols,
                                std::size_t room = 0) {
    return {arena.take<Element>(name, rows * (cols + room)), rows, cols, cols + room};
  }

  static QuantizedRows quantized_matrix(Arena& arena, const std::string& name, std::size_t rows, std::size_t cols) {
    auto matrix = quantized_memory(arena, name, rows * cols, rows);
    matrix.values = {matrix.values.data, rows, cols, cols};
    return matrix;
  }
  /// Takes memory for quantized rows of any width.
  static QuantizedRows quantized_memory(Arena& arena, const std::string& name, std::size_t values, std::size_t rows) {
    return {{arena.take<std::uint8_t>("quantized " + name, values), 1, values, values},
            arena.take<float>("factors of " + name, rows)};
  }

  NormWeights<Element> norm(Arena& arena, const std::string& name, const TransformerShape& m) const {
    return {arena.take<Element>(name, m.hidden),
            m.norm == Norm::layer ? arena.take<Element>(name + " shift", m.hidden) : nullptr};
  }

  /// Returns the slot of a unit. Layers use three slots in turn, because one layer is being computed and two are in
  /// transfer. The larger head and embeddings share a slot unless they are the same matrix.
  static std::size_t slot_of(const StepShape& s, std::size_t unit) {
    const auto layers = s.model.layers;
    if (s.shard != Shard::weights) return unit;
    if (unit == 0) return layers_in_turns;
    if (unit > layers + 1) return layers_in_turns + 2;
    return unit <= layers ? unit % layers_in_turns : layers_in_turns + (s.model.tied ? 1 : 0);
  }

  void place_units(Arena& arena, const StepShape& s, const FlatLayout& layout) {
    const bool turns = s.shard == Shard::weights, trained = s.trains == Trains::all;
    const auto shares = static_cast<std::size_t>(s.shares());
    const auto mine = shares == 1 ? 0 : static_cast<std::size_t>(s.rank);
    std::vector<std::size_t> begin, sizes;  // the beginnings and sizes of the slots
    for (std::size_t p = 0; p < layout.units.size(); ++p) {
      const auto slot = slot_of(s, p);
      if (slot >= sizes.size()) sizes.resize(slot + 1);
      sizes[slot] = std::max(sizes[slot], layout.units[p].size);
    }
    std::size_t whole = 0;
    for (const auto size : sizes) {
      begin.push_back(whole);
      whole += size;
    }
    arena.start(Use::weights);
    auto* const weights = trained ? arena.take<Element>("weights", whole) : nullptr;
    arena.start(Use::gradients);
    auto* const gradient = arena.take<Master>(turns ? "gradients of some layers" : "gradient", whole);
    arena.start(Use::weights);
    auto* const own_weights = turns ? arena.take<Element>("own weights", state.count) : nullptr;
    arena.start(Use::gradients);
    auto* const own_gradient = turns ? arena.take<Master>("own gradient", state.count) : nullptr;
    state.gradient = turns ? own_gradient : gradient;
    if (s.in_bf16()) bf16_state = {turns ? own_weights : weights, state.gradient, nullptr, nullptr, state.count};
    const auto behind = [](auto* base, std::size_t offset) { return base == nullptr ? nullptr : base + offset; };
    for (std::size_t p = 0; p < layout.units.size(); ++p) {
      const auto& unit = layout.units[p];
      const auto slot = slot_of(s, p), at = begin[slot], count = unit.size / shares, own = unit.offset / shares;
      units.push_back({slot, behind(weights, at), turns ? behind(own_weights, own) : behind(weights, at + mine * count),
                       behind(gradient, at), turns ? behind(own_gradient, own) : behind(gradient, at + mine * count),
                       own, count});
    }
  }

  void take_state(Arena& arena, const StepShape& s) {
    arena.start(Use::optimizer);
    const auto take = [&]<class T>(T*& mean, T*& variance) {
      mean = arena.take<T>("first moment", state.count);
      variance = arena.take<T>("second moment", state.count);
    };
    if (s.in_bf16()) return take(bf16_state.first_moment, bf16_state.second_moment);
    state.parameters = arena.take<Master>("parameters", state.count);
    take(state.first_moment, state.second_moment);
  }

  /// Places the weights of a fully trained model in the order of its flat array.
  void place_weights(const StepShape& s, const FlatLayout& layout) {
    layers.resize(s.model.layers);
    for (const auto& t : layout.tensors) {
      auto* const base = units[t.unit].weights;
      auto* const at = base == nullptr ? nullptr : base + (t.offset - layout.units[t.unit].offset);
      const Matrix<Element> m{at, t.rows, t.cols, t.cols};
      const bool bias = t.kind == Kind::bias;
      const auto of_norm = [&](NormWeights<Element>& norm) { (bias ? norm.shift : norm.gain) = at; };
      if (t.owner == Owner::embedding) {
        embedding = m;
      } else if (t.owner == Owner::positions) {
        positions = m;
      } else if (t.owner == Owner::final_norm) {
        of_norm(final_norm);
      } else if (t.owner == Owner::head) {
        bias ? void(head_bias = at) : void(head = m);
      } else if (t.owner == Owner::norm1 || t.owner == Owner::norm2) {
        of_norm(t.owner == Owner::norm1 ? layers[t.layer].norm1 : layers[t.layer].norm2);
      } else {
        const auto linear = static_cast<std::size_t>(*std::find_if(
            linears.begin(), linears.end(), [&](Linear candidate) { return owner(candidate) == t.owner; }));
        bias ? void(layers[t.layer].biases[linear] = at) : void(layers[t.layer].weights[linear] = m);
      }
    }
    if (s.model.tied) head = embedding;
  }

  void take_weights(Arena& arena, const StepShape& s) {
    const auto& m = s.model;
    arena.start(Use::weights);
    embedding = matrix(arena, "embedding", m.vocab, m.hidden);
    if (m.positions == Positions::learned) positions = matrix(arena, "positions", m.context, m.hidden);
    for (std::size_t l = 0; l < m.layers; ++l) {
      Layer layer;
      layer.norm1 = norm(arena, "norm 1", m);
      for (const auto linear : linears) {
        const auto& f = of(linear);
        const auto at = static_cast<std::size_t>(linear);
        const std::string what(name(owner(linear)));
        layer.weights[at] = matrix(arena, what + " weights", f.out + f.rank_total, f.in + f.rank_total);
        if (s.quantized) {
          layer.quantized[at] = quantized_matrix(arena, what + " weights", f.out, f.in + f.rank_total);
          layer.transposed[at] = quantized_matrix(arena, what + " weights by columns", f.in, f.out + f.rank_total);
        }
        layer.biases[at] = f.bias ? arena.take<Element>(what + " bias", f.out) : nullptr;
      }
      layer.norm2 = norm(arena, "norm 2", m);
      layers.push_back(layer);
    }
    if (m.norms_before()) final_norm = norm(arena, "final norm", m);
    head = m.tied ? embedding : matrix(arena, "head", m.vocab, m.hidden);
    if (s.quantized) quantized_head = quantized_matrix(arena, "head", m.vocab, m.hidden);
    if (m.head_bias) head_bias = arena.take<Element>("head bias", m.vocab);
  }

  NormStatistics<Master> statistics(Arena& arena, const std::string& name, const StepShape& s) const {
    return {s.model.norm == Norm::layer ? arena.take<Master>("mean of " + name, s.own_tokens()) : nullptr,
            arena.take<Master>("rstd of " + name, s.own_tokens())};
  }

  void take_activations(Arena& arena, const StepShape& s) {
    const auto m = s.part();
    const auto tokens = s.tokens(), own = s.own_tokens();
    arena.start(Use::activations);
    for (std::size_t l = 0; l <= m.layers; ++l) {
      x.push_back(matrix(arena, "residual", m.norms_before() ? own : tokens, m.hidden));
    }

    const bool rebuild = s.retain == Retain::rebuild;
    const auto room = [&](Linear linear) { return of(linear).rank_total; };
    arena.start(Use::scratch);
    Matrix<Element> shared_n;
    if (rebuild)
      shared_n = matrix(arena, "norm output", tokens, m.hidden, std::max(room(Linear::qkv), room(Linear::gate_up)));
    // The loss is complete before the backward pass begins, and the last layer's h is not needed after the loss begins.
    const auto wide_stride = m.intermediate + room(Linear::down), logit_rows = std::min(tokens, s.loss_chunk);
    auto* const shared = arena.take<Element>("MLP or logits", std::max(tokens * wide_stride, logit_rows * m.vocab));
    wide = {shared, tokens, m.intermediate, wide_stride};
    logits = {shared, logit_rows, m.vocab, m.vocab};

    // U follows the columns of a kept X. Otherwise it has separate memory.
    const auto u_of = [&](const char* name, Matrix<Element> input, bool input_kept, Linear linear) -> Matrix<Element> {
      if (room(linear) == 0) return {};
      if (!input_kept) return matrix(arena, name, tokens, room(linear));
      return {input.data == nullptr ? nullptr : input.data + input.cols, tokens, room(linear), input.stride};
    };
    // With Retain::inputs, the backward pass recomputes what one layer keeps.
    if (s.retain != Retain::inputs) arena.start(Use::activations);
    for (std::size_t l = 0; l < (s.retain == Retain::inputs ? 1 : m.layers); ++l) {
      Kept k;
      k.n1 = rebuild ? shared_n : matrix(arena, "n1", tokens, m.hidden, room(Linear::qkv));
      k.norm1 = statistics(arena, "norm 1", s);
      k.qkv = matrix(arena, "qkv", tokens, m.qkv_width());
      k.attended = matrix(arena, "attention output", tokens, m.q_width(), room(Linear::o));
      k.lse = arena.take<Master>("log-sum-exp", tokens * m.heads);
      k.middle = matrix(arena, "residual in the middle", own, m.hidden);
      k.n2 = rebuild ? shared_n : matrix(arena, "n2", m.norms_before() ? tokens : own, m.hidden, room(Linear::gate_up));
      k.norm2 = statistics(arena, "norm 2", s);
      k.gate_up = matrix(arena, "gate and up", tokens, m.mlp_width(), room(Linear::gate_up));
      k.h = rebuild ? wide : matrix(arena, "h", tokens, m.intermediate, room(Linear::down));
      k.u_qkv = u_of("U of qkv", k.n1, !rebuild, Linear::qkv);
      k.u_o = u_of("U of o", k.attended, true, Linear::o);
      k.u_gate_up = u_of("U of gate and up", k.n2, !rebuild, Linear::gate_up);
      k.u_down = u_of("U of down", k.h, !rebuild, Linear::down);
      kept.push_back(k);
    }
    if (m.norms_before()) final_statistics = statistics(arena, "final norm", s);
  }

  void take_scratch(Arena& arena, const StepShape& s) {
    const auto m = s.part();
    const auto tokens = s.tokens();
    dx = matrix(arena, "residual gradient", tokens, m.hidden,
                std::max(of(Linear::o).rank_total, of(Linear::down).rank_total));
    narrow = matrix(arena, "narrow scratch", tokens, std::max(m.hidden, m.q_width()));
    d_qkv = matrix(arena, "qkv gradient", tokens, m.qkv_width(), of(Linear::qkv).rank_total);
    if (!s.quantized) return;
    std::size_t widest = 0, widest_in = 0, largest = 0;
    for (const auto& f : shape) {
      widest = std::max(widest, std::max(f.in, f.out) + f.rank_total);
      widest_in = std::max(widest_in, f.in);
      largest = std::max(largest, f.in * f.out);
    }
    const bool trained = s.trains == Trains::all;
    const auto highest = trained ? std::max(tokens, widest) : widest;  // of columns that become rows
    quantized = quantized_memory(arena, "input", tokens * widest, trained ? highest : tokens);
    columns = arena.take<Element>("columns of weights", highest * columns_at_once);
    if (!trained) return;
    second = quantized_memory(arena, "second operand", tokens * widest_in, widest_in);
    const auto weights = quantized_memory(arena, "weights", largest, widest);
    for (auto& layer : layers) {
      for (const auto linear : linears) {
        const auto at = static_cast<std::size_t>(linear);
        const auto& f = shape[at];
        layer.quantized[at] = {{weights.values.data, f.out, f.in, f.in}, weights.scales};
        layer.transposed[at] = {{weights.values.data, f.in, f.out, f.out}, weights.scales};
      }
    }
  }
};

/// The memory of a step on a device and its host. `element` and `master` are the sizes of the two types: 2 and 4 for
/// bf16 with fp32 masters. Errors: std::invalid_argument for sizes that no backend has.
Plan plan(const StepShape&, std::size_t element, std::size_t master, std::size_t workspace_bytes);

/// Returns the memory of a step with the types of its spec, without the workspace of a backend. Errors: those of
/// step_shape.
template <Trains trains>
Plan planned(const StepSpec<trains>&);

}  // namespace shakedown::training
