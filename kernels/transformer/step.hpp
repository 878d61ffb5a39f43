// One training step of a transformer: forward, backward, sum of the gradients over ranks, AdamW. The same code serves
// the host and CUDA, through the operations of ops.hpp, and every composition of TransformerShape. Frozen weights have
// no gradients; the backward pass then computes only the gradients that the adapters need.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "kernels/transformer/gradient_sums.hpp"
#include "kernels/transformer/initial_values.hpp"
#include "kernels/transformer/layers.hpp"
#include "kernels/transformer/product_check.hpp"

namespace shakedown::training {

template <TrainingOps Ops>
class TrainingStep {
 public:
  using Element = typename Ops::Element;
  using Master = typename Ops::Master;

  /// Allocates all memory at once. Weights and adapters are undefined until `initialize`.
  TrainingStep(Ops& ops, const StepShape& shape)
      : ops_(ops),
        shape_(checked(shape)),
        part_(shape.part()),
        layout_(shape.layout()),
        tensors_(layout_.tensors),
        pieces_(shape.pieces()),
        bytes_(bytes_for(ops, shape)),
        memory_(ops.allocate(bytes_.device)),
        host_memory_(host_memory(ops, bytes_.host)),
        buffers_(carve(memory_.data(), host_memory_ ? host_memory_->data() : nullptr, ops, shape)),
        places_(shape_, layout_, buffers_),
        weights_(ops, shape_, layout_, buffers_.units),
        sums_(ops, shape_, layout_, buffers_),
        layers_(ops, shape_, buffers_, places_, weights_) {
    ops_.use_workspace(buffers_.workspace);
    for (const auto& piece : pieces_) slots_.push_back(places_.slot(piece));
    ops_.place_copies(slots_);
    write_rotations();
  }
  TrainingStep(const TrainingStep&) = delete;
  TrainingStep& operator=(const TrainingStep&) = delete;

  /// Bytes in the memory of the device and of its host.
  struct Bytes {
    std::size_t device, host;
  };
  static Bytes bytes_for(Ops& ops, const StepShape& shape) {
    Arena device, host;
    const Buffers<Element, Master> counted(device, host, shape, ops.workspace_bytes());
    return {device.bytes(), host.bytes()};
  }

  const StepShape& shape() const { return shape_; }
  std::size_t bytes() const { return bytes_.device; }
  std::size_t host_bytes() const { return bytes_.host; }
  Buffers<Element, Master>& buffers() { return buffers_; }
  /// Returns the number of sums over ranks in the last step.
  std::size_t buckets() const { return sums_.buckets(); }
  /// Sets the bucket size of later steps; see StepShape. At most the value in StepShape, unless that was 0.
  void set_bucket(std::size_t gradients) { shape_.bucket = gradients; }
  const std::vector<ParameterTensor>& tensors() const { return tensors_; }
  /// Returns the number of values of the flat array, over all ranks.
  std::size_t gradients() const { return layout_.count(); }
  /// Calls `use` with the state, a FlatState or a Bf16State.
  template <class Use>
  void with_state(const Use& use) {
    shape_.in_bf16() ? use(buffers_.bf16_state) : use(buffers_.state);
  }
  /// Return the pieces that this rank updates, and the offset of a piece in the arrays of the state.
  const std::vector<Piece>& pieces() const { return pieces_; }
  std::size_t own_offset(const Piece& piece) const { return places_.own_offset(piece); }
  /// Returns the copy of a tensor, trained or not, that products read.
  Matrix<Element> copy(const ParameterTensor& tensor) const { return places_.copy(tensor); }

  /// Sets random weights (see `tensor`), norms of one and random adapters, and clears moments and records. All memory
  /// that a step must write before it reads it becomes NaN.
  void initialize() {
    ops_.set_bytes(memory_.data(), 0xff, bytes_.device);  // including the workspace of the operations
    if (host_memory_) ops_.set_bytes(host_memory_->data(), 0xff, bytes_.host);
    ops_.place_copies(slots_);
    write_rotations();
    if (shape_.trains == Trains::adapters) initialize_frozen();
    initialize_parameters();
  }

  /// Sets the trainable parameters as `initialize` does, moments to zero, and the number of steps to zero. Frozen
  /// weights are not changed.
  void initialize_parameters() {
    // The padding of a share is zero.
    auto& state = buffers_.state;
    // A state in bf16 is drawn in the memory of the gradient.
    Master* const drawn = shape_.in_bf16() ? state.gradient : state.parameters;
    if (shape_.sharded()) ops_.set_bytes(drawn, 0, state.count * sizeof(Master));
    for (const auto& piece : pieces_) {
      const auto& t = tensors_[piece.tensor];
      Master* const values = drawn + own_offset(piece);
      draw(
          part_, t, shape_.tensor, shape_.tensor_rank,
          [&](const Stretch& s, std::uint64_t number) {
            const auto begin = t.offset + s.begin, first = std::max(begin, piece.first);
            const auto end = std::min(begin + s.count, piece.first + piece.count);
            if (first >= end) return;
            ops_.fill_normal(values + (first - piece.first), end - first, weight_stddev, number, first - begin,
                             {s.whole.first - s.of_module, s.whole.cols, s.whole.stride});
          },
          [&](double value) {
            const std::vector<Master> all(piece.count, static_cast<Master>(value));
            ops_.copy_in(values, all.data(), all.size() * sizeof(Master));
          });
    }
    if (shape_.in_bf16()) {
      ops_.round_to_bf16(drawn, buffers_.bf16_state.parameters, state.count);
      ops_.set_bytes(drawn, 0xff, state.count * sizeof(Master));
    }
    restart();
  }

  /// Called after the parameters were written from outside: copies them to the memory that products read, and resets
  /// moments and steps. Collective over all ranks if they share the state.
  void restart() {
    with_state([this](auto& state) {
      ops_.set_bytes(state.first_moment, 0, state.count * sizeof *state.first_moment);
      ops_.set_bytes(state.second_moment, 0, state.count * sizeof *state.second_moment);
    });
    go_on_after(0);
  }

  /// Does the same as restart, but keeps the moments, which were also written from outside, and continues after `steps`
  /// steps.
  void go_on_after(std::uint64_t steps) {
    if (!shape_.in_bf16()) ops_.write_copies(buffers_.state.parameters);
    for (std::size_t l = 0; l < shape_.model.layers; ++l) {
      for (const auto linear : linears) places_.linear(l, linear).quantize_weights(ops_);
    }
    if (buffers_.quantized_head.values) ops_.quantize(buffers_.head, buffers_.quantized_head);
    weights_.go_alone();
    weights_.exchange();
    for (auto u = buffers_.units.size(); u-- > 0;) {
      if (weights_.is_next(u)) weights_.gather(u);
    }
    settle();
    steps_ = steps;
    recorded_ = 0;
    records_.clear();
  }
  /// Returns the number of steps since the random initial state.
  std::uint64_t steps() const { return steps_; }

  /// Loads the tokens of the next steps: accumulation x batch x seq inputs and the same number of targets, each below
  /// the vocabulary size, or no_target. `counted` is the number of targets of all ranks together, over which the loss
  /// is the mean; nullopt: every position has one.
  void load(std::span<const int> inputs, std::span<const int> targets, std::optional<double> counted = std::nullopt) {
    const auto count = shape_.accumulation * shape_.tokens();
    if (inputs.size() != count || targets.size() != count) throw std::invalid_argument("a batch of another size");
    targets_of_rank_ = counted ? std::max(*counted, 1.0) / shape_.ranks : static_cast<double>(count);
    const auto in_part = [&](std::span<const int> tokens) {
      std::vector<int> local;
      for (const int token : tokens) {
        const int in = token - first_token();
        const bool here = in >= 0 && in < static_cast<int>(part_.vocab);
        local.push_back(here || token == no_target ? (here ? in : token) : -1);
      }
      return local;
    };
    const auto local = in_part(inputs), local_targets = in_part(targets);
    ops_.copy_in(buffers_.inputs, local.data(), inputs.size_bytes());
    ops_.copy_in(buffers_.targets, local_targets.data(), targets.size_bytes());
    if (buffers_.order == nullptr) return;
    std::vector<int> order(count);
    for (std::size_t first = 0; first < count; first += shape_.tokens()) {
      const auto begin = order.begin() + static_cast<std::ptrdiff_t>(first);
      const auto end = begin + static_cast<std::ptrdiff_t>(shape_.tokens());
      std::iota(begin, end, 0);
      const auto of = std::span<const int>(local).subspan(first);
      std::stable_sort(begin, end,
                       [&](int a, int b) { return of[static_cast<std::size_t>(a)] < of[static_cast<std::size_t>(b)]; });
    }
    ops_.copy_in(buffers_.order, order.data(), count * sizeof(int));
  }

  /// Returns the first token of this rank's part of the vocabulary; tokens on the device are relative to it.
  int first_token() const { return shape_.tensor_rank * static_cast<int>(part_.vocab); }

  /// Allows both passes to be launched as a whole from now on, if they are the same in every step. Products must be
  /// tuned, and one step must have run.
  void repeat() { repeats_ = alone() && shape_.accumulation == 1; }

  /// Queues one step. Without collectives the ranks run independently, to measure the cost of the collectives.
  void run(const AdamW& settings, bool collectives = true) {
    if (recorded_ == records_kept) collect();
    collectives ? weights_.exchange() : weights_.go_alone();
    record_ = buffers_.records;
    ops_.set_bytes(record_, 0, sizeof(Record));
    ops_.mark(Mark::begin);
    for (micro_ = 0; micro_ < shape_.accumulation; ++micro_) {
      const bool last = micro_ + 1 == shape_.accumulation;
      if (last) ops_.mark(Mark::forward_begin);
      queue_pass(0, [this] { forward(true); });
      if (last) ops_.mark(Mark::forward_end);
      // Gradients that share memory in turn are summed over ranks at once, and the shares are accumulated.
      queue_pass(1, [&] { backward(last || shape_.shard == Shard::weights); });
    }
    ops_.mark(Mark::backward_end);
    if (collectives) join();
    ops_.mark(Mark::reduced);
    auto update = settings;
    update.step = ++steps_;
    // The gradient of a single rank has already been summarized, bucket by bucket.
    auto* const gradient = alone() ? &record_->local : &record_->reduced;
    if (shape_.ranks > 1) {
      sums_.summarize(pass());
    } else if (!alone()) {
      ops_.copy_bytes(gradient, &record_->local, sizeof(Summary));
    }
    if (shape_.ranks > 1 && shape_.sharded() && collectives) join();
    if (shape_.tensor > 1 && collectives) ops_.sum_together(gradient);
    if (shape_.sharded()) {
      weights_.forget();
      // In the order of use in the next step. The first units are gathered while the remaining updates run.
      std::size_t end = slots_.size();
      for (auto u = buffers_.units.size(); u-- > 0;) {
        const bool next = weights_.is_next(u);
        if (!next && u > 0) continue;
        auto first = end;
        while (first > 0 && tensors_[pieces_[first - 1].tensor].unit >= u) --first;
        apply(update, gradient, first, end - first);
        end = first;
        if (!next) continue;
        if (collectives) ops_.meet();
        weights_.gather(u);
      }
      if (collectives) settle();
    } else {
      apply(update, gradient, 0, slots_.size());
    }
    if (const auto* const unit = replicated()) {
      ops_.summarize(buffers_.state.parameters + unit->own_offset, 0, unit->own_count, &record_->shared);
    }
    ops_.copy_bytes(record_ + ++recorded_, record_, sizeof(Record));
    ops_.mark(Mark::end);
  }

  /// Returns the loss of the loaded tokens, as in Record, and changes no parameter. Waits. Errors: std::logic_error if
  /// ranks share the model.
  double evaluate() {
    if (shape_.sharded() || shape_.tensor > 1) throw std::logic_error("evaluation of a model that ranks share");
    record_ = buffers_.records;
    ops_.set_bytes(record_, 0, sizeof(Record));
    for (micro_ = 0; micro_ < shape_.accumulation; ++micro_) forward(false);
    Record record;
    ops_.copy_out(&record, buffers_.records, sizeof record);
    return record.loss;
  }

  /// Returns the records of the steps since `restart`, oldest first; waits for them.
  const std::vector<Record>& records() {
    collect();
    return records_;
  }

  /// Compares the quantized products and weights of a layer with the host, after a step. Scratch memory and activations
  /// are lost afterwards. Waits.
  Check check_quantized_products() {
    using Source = typename Layers<Ops>::Source;
    Checker checker;
    const auto check_rows = [&](const QuantizedRows& rows, const Source& of) {
      of.by_columns ? check_quantized(ops_, checker, rows, columns_of(of.values), of.may_exceed)
                    : check_quantized(ops_, checker, rows, rows_of(of.values), of.may_exceed);
    };
    const auto check_one = [&]<class Out>(const QuantizedGemm<Element, Out>& g, const Source& a, const Source& b) {
      check_rows(g.a, a);
      check_rows(g.b, b);
      auto errors = ops_.quantized_errors(g.a.values.cols, g.accumulation);
      if constexpr (!std::is_same_v<Out, Element>) errors.u_out = std::numeric_limits<Out>::epsilon() / 2;
      check_product(ops_, checker, g.a, g.b, g.a.values.cols, g.d, {}, g.bias, errors);
    };
    layers_.repeat_quantized(check_one);
    if (!buffers_.quantized_head.values) return checker.result();
    const auto rows = std::min(shape_.loss_chunk, shape_.tokens());
    const auto normed = layers_.narrow(shape_.model.hidden).row_range(0, rows);
    const auto product = quantized_logits(normed, buffers_.logits.row_range(0, rows));
    ops_.gemm(product);
    check_one(product, Source{normed}, Source{buffers_.head});
    return checker.result();
  }

  /// Returns a summary of the current trainable parameters that this rank updates; waits.
  Summary parameter_summary() {
    return summary_of([&](Summary* to) {
      with_state([&](const auto& state) { ops_.summarize(state.parameters, 0, state.count, to); });
    });
  }

  /// Returns a summary of the weights that products read, the same on all ranks. If ranks share the parameters, it
  /// gathers and covers all of them. Waits; collective over all ranks.
  Summary weights_summary() {
    if (!shape_.sharded()) return parameter_summary();
    weights_.exchange();
    return summary_of([&](Summary* to) {
      for (auto u = buffers_.units.size(); u-- > 0;) {
        weights_.use(u);
        ops_.summarize(buffers_.units[u].weights, layout_.units[u].offset, layout_.units[u].used, to);
      }
      settle();
    });
  }

 private:
  bool alone() const { return shape_.ranks == 1 && shape_.tensor == 1; }

  using Product = Gemm<Element, Element>;
  using GradientProduct = Gemm<Element, Master>;

  using HostMemory = decltype(std::declval<Ops&>().host_memory(std::size_t{}));

  static std::unique_ptr<HostMemory> host_memory(Ops& ops, std::size_t bytes) {
    return std::unique_ptr<HostMemory>(bytes == 0 ? nullptr : new HostMemory(ops.host_memory(bytes)));
  }

  static Buffers<Element, Master> carve(std::byte* base, std::byte* host_base, Ops& ops, const StepShape& shape) {
    Arena arena(base), host(host_base);
    return Buffers<Element, Master>(arena, host, shape, ops.workspace_bytes());
  }

  static const StepShape& checked(const StepShape& shape) {
    check(shape);
    return shape;
  }

  void initialize_frozen() {
    for (const auto& layer : buffers_.layers) {
      // The columns for adapters are zero unless an adapter uses them.
      for (const auto& m : layer.weights) ops_.set_bytes(m.data, 0, m.rows * m.stride * sizeof(Element));
    }
    for (const auto& t : parameter_tensors(shape_.model, no_adapters, Trains::all)) {
      const auto to = places_.copy(t);
      draw(
          part_, t, shape_.tensor, shape_.tensor_rank,
          [&](const Stretch& s, std::uint64_t number) {
            ops_.fill_normal(to.row_range(s.begin / t.cols, s.count / t.cols), weight_stddev, number);
          },
          [&](double value) {
            const std::vector<Element> all(to.cols, Ops::to_element(value));
            ops_.copy_in(to.data, all.data(), all.size() * sizeof(Element));
          });
    }
  }

  void apply(const AdamW& update, const Summary* gradient, std::size_t first, std::size_t slots) {
    with_state([&](const auto& state) { ops_.adamw(state, update, gradient, &record_->updated, first, slots); });
  }

  void queue_pass(std::size_t which, const std::function<void()>& queue) {
    repeats_ ? ops_.repeat(which, queue) : queue();
  }

  /// Return functions that read a row or a column of a matrix.
  auto rows_of(Matrix<Element> m) {
    return [this, m](std::size_t row) { return read_rows(ops_, m, row); };
  }
  auto columns_of(Matrix<Element> m) {
    return [this, m](std::size_t column) {
      const std::size_t first = column / columns_at_once * columns_at_once;
      const Matrix<Element> some{buffers_.columns, m.rows, columns_at_once, columns_at_once};
      ops_.copy(m.columns(first, columns_at_once), some);
      const auto values = read_rows(ops_, some, 0, some.rows);
      std::vector<double> result;
      for (std::size_t i = column - first; i < values.size(); i += columns_at_once) result.push_back(values[i]);
      return result;
    };
  }

  // Forward -----------------------------------------------------------------------------------------------------------

  /// Runs the forward pass. The logits exist one chunk at a time and become their gradients in place, so this includes
  /// the head's part of the backward pass if `trains`. Leaves the gradient of the head's input in `head_gradient`.
  void forward(bool trains) {
    const auto& m = shape_.model;
    for (auto u = buffers_.units.size(); --u > m.layers;) weights_.use(u);
    ops_.embedding(buffers_.embedding, buffers_.inputs + micro_ * shape_.tokens(), buffers_.positions, shape_.seq,
                   layers_.parts_of(layers_.residual(0)));
    layers_.add_parts(layers_.residual(0));
    if (!m.norms_before()) layers_.gather_tokens(buffers_.x[0]);
    for (std::size_t l = 0; l < m.layers; ++l) layers_.forward(l, true);
    weights_.use(0);
    sums_.claim(0);
    if (m.tied) sums_.claim(m.layers + 1);
    if (replicated() != nullptr) sums_.claim(m.layers + 2);
    // In a post-norm model the output of the last layer is already normed.
    const auto normed = m.norms_before() ? layers_.narrow(m.hidden) : buffers_.x[m.layers];
    if (m.norms_before()) {
      ops_.norm(buffers_.x[m.layers], buffers_.final_norm, m.norm_eps, layers_.own(normed), buffers_.final_statistics);
      layers_.gather_tokens(normed);
    }
    const double each = 1 / targets_of_rank_;
    const int* const targets = buffers_.targets + micro_ * shape_.tokens();
    const auto d_head = places_.gradient(m.tied ? Owner::embedding : Owner::head, Kind::weight);
    const auto d_bias = places_.gradient(Owner::head, Kind::bias);
    for (std::size_t first = 0; first < shape_.tokens(); first += shape_.loss_chunk) {
      const auto count = std::min(shape_.loss_chunk, shape_.tokens() - first);
      const auto rows = normed.row_range(first, count);
      const auto logits = buffers_.logits.row_range(0, count);
      const bool accumulate = adds() || first > 0;
      if (buffers_.quantized_head.values) {
        ops_.gemm(quantized_logits(rows, logits));
      } else {
        ops_.gemm(
            Product{.d = logits, .a = rows, .b = buffers_.head, .b_transposed = true, .bias = buffers_.head_bias});
      }
      ops_.cross_entropy(logits, targets + first, each / shape_.ranks, buffers_.losses + first);
      if (!trains) continue;
      if (d_head) {
        ops_.gemm(
            GradientProduct{.d = d_head, .a = logits, .a_transposed = true, .b = rows, .beta = accumulate ? 1.0 : 0.0});
      }
      if (d_bias) ops_.sum_rows(logits, accumulate, d_bias.data);
      ops_.gemm(Product{.d = head_gradient().row_range(first, count), .a = logits, .b = buffers_.head});
    }
    if (trains) layers_.scatter_tokens(head_gradient());
    ops_.add_sum(buffers_.losses, shape_.tokens(), each, &record_->loss);
  }

  QuantizedGemm<Element> quantized_logits(Matrix<Element> rows, Matrix<Element> logits) {
    auto input = buffers_.quantized;
    input.values = {input.values.data, rows.rows, rows.cols, rows.cols};
    ops_.quantize(rows, input);
    return {.d = logits, .a = input, .b = buffers_.quantized_head, .bias = buffers_.head_bias};
  }

  // Backward ----------------------------------------------------------------------------------------------------------

  void backward(bool sums) {
    const auto& m = shape_.model;
    if (m.norms_before()) {
      layers_.norm_backward(
          {m.layers, Owner::final_norm, layers_.residual(m.layers), buffers_.final_norm, buffers_.final_statistics},
          head_gradient(), false, {}, adds());
    }
    sums_.begin();
    for (std::size_t l = m.layers; l-- > 0;) {
      const auto unit = m.layers - l;
      weights_.use(unit);
      sums_.claim(unit);
      if (shape_.retain == Retain::inputs && l + 1 < m.layers) layers_.forward(l, false);
      layers_.backward(l, adds(), [&] {
        const auto complete = complete_before_attention(tensors_, m, l);
        if (sums && sums_.due(complete, l)) sums_.reduce(complete, pass());
        for (std::size_t ahead = 1; ahead < layers_in_turns && unit + ahead <= m.layers; ++ahead) {
          weights_.gather(unit + ahead);
        }
      });
    }
    if (shape_.trains == Trains::all) {
      sums_.claim(m.layers + 1);
      embedding_backward();
    }
    if (!sums) return;
    if (const auto* const unit = replicated(); unit != nullptr && weights_.exchanges()) {
      ops_.sum_together(unit->gradient, layout_.units.back().used);
    }
    sums_.reduce(layout_.count(), pass());
  }

  typename GradientSums<Ops>::Pass pass() const { return {record_, weights_.exchanges(), micro_}; }

  /// True if a gradient is added to that of the previous micro-batches.
  bool adds() const { return micro_ > 0 && shape_.shard != Shard::weights; }

  /// Makes later work start after all fetches and all previous writes of all ranks are complete.
  void settle() {
    join();
    ops_.meet();
    join();
  }

  void join() {
    ops_.join_reductions();
    weights_.joined();
    sums_.joined();
  }

  /// Uses the record of the current step as temporary memory.
  template <class Summarize>
  Summary summary_of(const Summarize& summarize) {
    ops_.set_bytes(buffers_.records, 0, sizeof(Record));
    summarize(&buffers_.records->local);
    Record record;
    ops_.copy_out(&record, buffers_.records, sizeof record);
    return record.local;
  }

  /// Adds to the head's gradient if both are tied.
  void embedding_backward() {
    const auto& m = shape_.model;
    const auto dx = buffers_.dx;
    const auto d_table = places_.gradient(Owner::embedding, Kind::weight);
    const auto clear = [this](Matrix<Master> d) { ops_.set_bytes(d.data, 0, d.rows * d.cols * sizeof(Master)); };
    if (!m.tied && !adds()) clear(d_table);
    const auto first = micro_ * shape_.tokens();
    layers_.gather_tokens(dx);
    ops_.embedding_backward(dx, buffers_.inputs + first, buffers_.order + first, d_table);
    if (m.positions != Positions::learned) return;
    // Sums over sequences, each of which is one row. Positions after the end of the sequences have no gradient.
    const auto d_positions = places_.gradient(Owner::positions, Kind::weight);
    if (!adds()) clear(d_positions);
    if (shape_.tensor_rank > 0) return;  // one rank adds it for the whole group
    const auto row = shape_.seq * m.hidden;
    ops_.sum_rows(Matrix<Element>{dx.data, shape_.batch, row, row}, true, d_positions.data);
  }

  Matrix<Element> head_gradient() const {
    return shape_.model.norms_before() ? layers_.narrow(shape_.model.hidden) : buffers_.dx;
  }

  /// Returns the unit that is replicated in a tensor parallel group; null if one rank has the whole model.
  const typename Buffers<Element, Master>::UnitPlace* replicated() const {
    return shape_.tensor > 1 ? &buffers_.units.back() : nullptr;
  }

  void write_rotations() {
    if (buffers_.rotations == nullptr) return;
    const auto& m = shape_.model;
    const auto table = rotation_table<Master>(shape_.seq, m.head_dim, m.rope_theta);
    ops_.copy_in(buffers_.rotations, table.data(), table.size() * sizeof(Master));
  }

  void collect() {
    if (recorded_ == 0) return;
    const auto before = records_.size();
    records_.resize(before + recorded_);
    ops_.copy_out(records_.data() + before, buffers_.records + 1, recorded_ * sizeof(Record));
    recorded_ = 0;
    for (auto i = before; i < records_.size(); ++i) records_[i].local = records_[i].local + records_[i].share;
    if (!alone()) return;
    for (auto i = before; i < records_.size(); ++i) records_[i].reduced = records_[i].local;
  }

  Ops& ops_;
  StepShape shape_;
  TransformerShape part_;
  FlatLayout layout_;
  const std::vector<ParameterTensor>& tensors_;
  std::vector<Piece> pieces_;  // that this rank updates
  Bytes bytes_;
  decltype(std::declval<Ops&>().allocate(std::size_t{})) memory_;
  std::unique_ptr<HostMemory> host_memory_;  // of a state with StateMemory::host
  Buffers<Element, Master> buffers_;
  Places<Ops> places_;
  WeightStore<Ops> weights_;
  GradientSums<Ops> sums_;
  Layers<Ops> layers_;
  std::vector<ParameterSlot<Element>> slots_;  // of the pieces

  double targets_of_rank_ = 1;  // targets of all ranks in a step, divided by the ranks
  bool repeats_ = false;
  std::uint64_t steps_ = 0;   // since restart; includes the steps of a run that this one continues
  std::size_t recorded_ = 0;  // records on the device that have not been read
  std::size_t micro_ = 0;
  Record* record_ = nullptr;
  std::vector<Record> records_;
};

}  // namespace shakedown::training
