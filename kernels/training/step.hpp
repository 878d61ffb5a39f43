// One training step of a transformer: forward, backward, sum of the gradients over ranks, AdamW. One text for the host
// and for CUDA, over the operations of ops.hpp, and for every composition that TransformerShape can name. Frozen
// weights have no gradients: beside them the backward pass is what the adapters need and no more.
// Longer than other files: when weights and gradients travel depends on which product reads them next, in both passes.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "kernels/training/linear.hpp"

namespace shakedown::training {

/// Numbers of the random tensors: each matrix, bias and adapter has its own, the same for every backend and for the
/// peer scripts. Element (r, c) of a tensor with so many columns is stddev normal((number << 32) + r columns + c).
namespace tensor {
constexpr std::uint64_t embedding = 0, head = 1, positions = 2, head_bias = 3;
constexpr std::uint64_t of_layer(std::size_t layer) { return 32 * (layer + 1); }
constexpr std::uint64_t weight(std::size_t layer, Module m) { return of_layer(layer) + static_cast<std::uint64_t>(m); }
constexpr std::uint64_t bias(std::size_t layer, Linear linear) {
  return of_layer(layer) + (linear == Linear::qkv ? 7 : 24 + static_cast<std::uint64_t>(linear));
}
constexpr std::uint64_t a(std::size_t layer, Module m) { return of_layer(layer) + 8 + static_cast<std::uint64_t>(m); }
constexpr std::uint64_t b(std::size_t layer, Module m) { return of_layer(layer) + 16 + static_cast<std::uint64_t>(m); }
}  // namespace tensor

/// Standard deviation of all random weights, as Qwen2Config and GPT2Config initialise them. B is not zero as in a real
/// fine-tuning: with B = 0 half of the backward pass would compute zeros.
inline constexpr double weight_stddev = 0.02;

/// Expected loss of the first step: the logits are normal with variance hidden stddev^2, whose log of the mean of exp
/// is half of it.
inline double expected_first_loss(const TransformerShape& model) {
  return std::log(static_cast<double>(model.vocab)) +
         static_cast<double>(model.hidden) * weight_stddev * weight_stddev / 2;
}

template <TrainingOps Ops>
class TrainingStep {
 public:
  using Element = typename Ops::Element;
  using Master = typename Ops::Master;

  /// Allocates everything, in one piece. Weights and adapters are undefined until `initialize`.
  TrainingStep(Ops& ops, const StepShape& shape)
      : ops_(ops),
        shape_(shape),
        part_(shape.part()),
        layout_(shape.layout()),
        tensors_(layout_.tensors),
        pieces_(shape.pieces()),
        memory_(ops.allocate(bytes_for(ops, shape))),
        bytes_(bytes_for(ops, shape)),
        buffers_(carve(memory_.data(), ops, shape)) {
    check(shape);
    for (std::size_t l = 0; l < shape_.model.layers; ++l) {
      for (const auto linear : linears) projections_.push_back(projection(l, linear));
    }
    ops_.use_workspace(buffers_.workspace);
    for (const auto& piece : pieces_) slots_.push_back(slot(piece));
    held_.resize(std::max(buffers_.units.size(), layers_in_turns + 3));
    arrived_.resize(held_.size());
    sent_.resize(held_.size());
    ops_.place_copies(slots_);
    write_rotations();
  }
  TrainingStep(const TrainingStep&) = delete;
  TrainingStep& operator=(const TrainingStep&) = delete;

  static std::size_t bytes_for(Ops& ops, const StepShape& shape) {
    Arena arena;
    const Buffers<Element, Master> counted(arena, shape, ops.workspace_bytes());
    return arena.bytes();
  }

  const StepShape& shape() const { return shape_; }
  std::size_t bytes() const { return bytes_; }
  Buffers<Element, Master>& buffers() { return buffers_; }
  /// Sums over ranks in the last step.
  std::size_t buckets() const { return buckets_; }
  /// For the steps that follow; see StepShape. Not above that one's, unless it was 0.
  void set_bucket(std::size_t gradients) { shape_.bucket = gradients; }
  const std::vector<ParameterTensor>& tensors() const { return tensors_; }
  /// Values of the flat array, of all ranks together.
  std::size_t gradients() const { return layout_.count(); }
  /// What this rank updates, and where that begins in the arrays of the state.
  const std::vector<Piece>& pieces() const { return pieces_; }
  std::size_t own_offset(const Piece& piece) const {
    const auto u = tensors_[piece.tensor].unit;
    const auto& place = buffers_.units[u];
    const auto rank = sharded() ? static_cast<std::size_t>(shape_.rank) : 0;
    return place.own_offset + (piece.first - layout_.units[u].offset - rank * place.own_count);
  }

  /// Random weights (see `tensor`), norms of one, random adapters; moments and records cleared; everything that a step
  /// must write before it reads it becomes NaN.
  void initialize() {
    ops_.set_bytes(memory_.data(), 0xff, bytes_);  // the workspace of the operations too
    ops_.place_copies(slots_);
    write_rotations();
    if (shape_.trains == Trains::adapters) initialize_frozen();
    initialize_parameters();
  }

  /// The trainable parameters as `initialize` makes them, moments zero, no step taken. Frozen weights stay.
  void initialize_parameters() {
    // What fills up a share is zero.
    if (sharded()) ops_.set_bytes(buffers_.state.parameters, 0, buffers_.state.count * sizeof(Master));
    for (const auto& piece : pieces_) {
      const auto& t = tensors_[piece.tensor];
      Master* const values = buffers_.state.parameters + own_offset(piece);
      draw(
          t,
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
    restart();
  }

  /// After the parameters were written from outside: copies them to where the products read them, forgets moments and
  /// steps. All ranks together where they share the state.
  void restart() {
    ops_.set_bytes(buffers_.state.first_moment, 0, buffers_.state.count * sizeof(Master));
    ops_.set_bytes(buffers_.state.second_moment, 0, buffers_.state.count * sizeof(Master));
    go_on_after(0);
  }

  /// The same after the moments were written too, by somebody who had taken so many steps.
  void go_on_after(std::uint64_t steps) {
    ops_.write_copies(buffers_.state.parameters);
    exchanges_ = false;
    exchange();
    for (auto p = buffers_.units.size(); p-- > 0;) gather_first(p);
    settle();
    steps_ = steps;
    recorded_ = 0;
    records_.clear();
  }
  /// Since the state was random.
  std::uint64_t steps() const { return steps_; }

  /// The tokens of the next steps: accumulation x batch x seq inputs, and as many targets, each below the vocabulary.
  void load(std::span<const int> inputs, std::span<const int> targets) {
    const auto count = shape_.accumulation * shape_.tokens();
    if (inputs.size() != count || targets.size() != count) throw std::invalid_argument("a batch of another size");
    const auto in_part = [&](std::span<const int> tokens) {
      std::vector<int> local;
      for (const int token : tokens) {
        const int in = token - first_token();
        local.push_back(in < static_cast<int>(part_.vocab) ? std::max(in, -1) : -1);
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

  /// Of this rank's part of the vocabulary: what stands on the device counts from there.
  int first_token() const { return shape_.tensor_rank * static_cast<int>(part_.vocab); }

  /// From here on both passes may be launched as a whole each, where they are the same in every step. Products must be
  /// tuned, and a step must have run.
  void repeat() { repeats_ = shape_.ranks == 1 && shape_.tensor == 1 && shape_.accumulation == 1; }

  /// Queues one step. Without collectives the ranks go their own ways: for measuring what they cost.
  void run(const AdamW& settings, bool collectives = true) {
    if (recorded_ == records_kept) collect();
    collectives ? exchange() : void(exchanges_ = false);
    record_ = buffers_.records;
    ops_.set_bytes(record_, 0, sizeof(Record));
    ops_.mark(Mark::begin);
    for (micro_ = 0; micro_ < shape_.accumulation; ++micro_) {
      const bool last = micro_ + 1 == shape_.accumulation;
      if (last) ops_.mark(Mark::forward_begin);
      pass(0, [this] { forward(); });
      if (last) ops_.mark(Mark::forward_end);
      // Gradients that take turns in the same memory are summed over ranks at once, and their shares added up.
      pass(1, [&] { backward(last || shape_.shard == Shard::weights); });
    }
    ops_.mark(Mark::backward_end);
    if (collectives) join();
    ops_.mark(Mark::reduced);
    auto update = settings;
    update.step = ++steps_;
    // The gradient of a single rank has been looked at, bucket by bucket.
    auto* const gradient = shape_.ranks > 1 ? &record_->reduced : &record_->local;
    if (shape_.ranks > 1) summarize_reduced();
    if (shape_.tensor > 1 && exchanges_) ops_.sum_together(gradient);
    if (sharded()) {
      held_.assign(held_.size(), std::nullopt);
      // In the order in which the next step needs them; those that it finds in place travel beside what follows.
      std::size_t end = slots_.size();
      for (auto p = buffers_.units.size(); p-- > 0;) {
        const bool wanted = !held_[buffers_.units[p].slot];
        if (!wanted && p > 0) continue;
        auto first = end;
        while (first > 0 && tensors_[pieces_[first - 1].tensor].unit >= p) --first;
        ops_.adamw(buffers_.state, update, gradient, &record_->updated, first, end - first);
        end = first;
        if (!wanted) continue;
        if (collectives) ops_.meet();
        gather(p);
      }
      if (collectives) settle();
    } else {
      ops_.adamw(buffers_.state, update, gradient, &record_->updated, 0, slots_.size());
    }
    if (const auto* const unit = replicated()) {
      ops_.summarize(buffers_.state.parameters + unit->own_offset, 0, unit->own_count, &record_->shared);
    }
    ops_.copy_bytes(record_ + ++recorded_, record_, sizeof(Record));
    ops_.mark(Mark::end);
  }

  /// What the steps since `restart` left behind, the oldest first; waits for them.
  const std::vector<Record>& records() {
    collect();
    return records_;
  }

  /// Of the trainable parameters that this rank updates as they are now; waits.
  Summary parameter_summary() {
    return summary_of([&](Summary* to) { ops_.summarize(buffers_.state.parameters, 0, buffers_.state.count, to); });
  }

  /// Of what the products read, the same on all ranks: where ranks share the parameters, of all of them as they come
  /// together here. Waits; all ranks together.
  Summary weights_summary() {
    if (!sharded()) return parameter_summary();
    exchange();
    return summary_of([&](Summary* to) {
      for (auto p = buffers_.units.size(); p-- > 0;) {
        use(p);
        ops_.summarize(buffers_.units[p].weights, layout_.units[p].offset, layout_.units[p].used, to);
      }
      settle();
    });
  }

 private:
  using Product = Gemm<Element, Element>;
  using GradientProduct = Gemm<Element, Master>;
  using Kept = typename Buffers<Element, Master>::Kept;

  static Buffers<Element, Master> carve(std::byte* base, Ops& ops, const StepShape& shape) {
    Arena arena(base);
    return Buffers<Element, Master>(arena, shape, ops.workspace_bytes());
  }

  // Weights -----------------------------------------------------------------------------------------------------------

  /// What a tensor holds at the start: random values, by normal(stretch, number), or one value, by constant(value).
  template <class Normal, class Constant>
  void draw(const ParameterTensor& t, const Normal& normal, const Constant& constant) const {
    const bool is_bias = t.kind == Kind::bias;
    if (t.is_norm()) return constant(is_bias ? 0 : 1);
    if (t.kind == Kind::a) return normal(Stretch{t.module, 0, t.size(), {}, 0}, tensor::a(t.layer, t.module));
    if (t.kind == Kind::b) return normal(Stretch{t.module, 0, t.size(), {}, 0}, tensor::b(t.layer, t.module));
    for (auto s : stretches(part_, t, shape_.tensor, shape_.tensor_rank)) {
      if (is_bias) s.of_module = 0;  // that of q, k and v is one
      if (t.owner == Owner::embedding) {
        normal(s, tensor::embedding);
      } else if (t.owner == Owner::positions) {
        normal(s, tensor::positions);
      } else if (t.owner == Owner::head) {
        normal(s, is_bias ? tensor::head_bias : tensor::head);
      } else {
        normal(s, is_bias ? tensor::bias(t.layer, linear_of(t.owner)) : tensor::weight(t.layer, s.module));
      }
    }
  }

  void initialize_frozen() {
    for (const auto& layer : buffers_.layers) {
      // What no adapter fills is zero in the room of the adapters.
      for (const auto& m : layer.weights) ops_.set_bytes(m.data, 0, m.rows * m.stride * sizeof(Element));
    }
    for (const auto& t : parameter_tensors(shape_.model, no_adapters, Trains::all)) {
      const auto to = place(t);
      draw(
          t,
          [&](const Stretch& s, std::uint64_t number) {
            ops_.fill_normal(to.row_range(s.begin / t.cols, s.count / t.cols), weight_stddev, number);
          },
          [&](double value) {
            const std::vector<Element> all(to.cols, Ops::to_element(value));
            ops_.copy_in(to.data, all.data(), all.size() * sizeof(Element));
          });
    }
  }

  void pass(std::size_t which, const std::function<void()>& queue) { repeats_ ? ops_.repeat(which, queue) : queue(); }

  // Forward -----------------------------------------------------------------------------------------------------------

  /// Logits exist a chunk at a time and turn into their gradients in place, so the head's part of the backward pass is
  /// here too. Leaves the gradient of the head's input in `head_gradient`.
  void forward() {
    const auto& m = shape_.model;
    for (auto p = buffers_.units.size(); --p > m.layers;) use(p);
    ops_.embedding(buffers_.embedding, buffers_.inputs + micro_ * shape_.tokens(), buffers_.positions, shape_.seq,
                   parts_of(residual(0)));
    add_parts(residual(0));
    if (!m.norms_before()) gather_tokens(buffers_.x[0]);
    for (std::size_t l = 0; l < m.layers; ++l) forward_layer(l, true);
    use(0);
    claim(0);
    if (m.tied) claim(m.layers + 1);
    if (replicated() != nullptr) claim(m.layers + 2);
    // With norms behind the sums the last layer's output is normed already.
    const auto normed = m.norms_before() ? narrow(m.hidden) : buffers_.x[m.layers];
    if (m.norms_before()) {
      ops_.norm(buffers_.x[m.layers], buffers_.final_norm, m.norm_eps, own(normed), buffers_.final_statistics);
      gather_tokens(normed);
    }
    const double each = 1 / static_cast<double>(shape_.accumulation * shape_.tokens());
    const int* const targets = buffers_.targets + micro_ * shape_.tokens();
    const auto d_head = gradient(m.tied ? Owner::embedding : Owner::head, Kind::weight);
    const auto d_bias = gradient(Owner::head, Kind::bias);
    for (std::size_t first = 0; first < shape_.tokens(); first += shape_.loss_chunk) {
      const auto count = std::min(shape_.loss_chunk, shape_.tokens() - first);
      const auto rows = normed.row_range(first, count);
      const auto logits = buffers_.logits.row_range(0, count);
      const bool accumulate = adds() || first > 0;
      ops_.gemm(Product{.d = logits, .a = rows, .b = buffers_.head, .b_transposed = true, .bias = buffers_.head_bias});
      ops_.cross_entropy(logits, targets + first, each / shape_.ranks, buffers_.losses + first);
      if (d_head) {
        ops_.gemm(
            GradientProduct{.d = d_head, .a = logits, .a_transposed = true, .b = rows, .beta = accumulate ? 1.0 : 0.0});
      }
      if (d_bias) ops_.sum_rows(logits, accumulate, d_bias.data);
      ops_.gemm(Product{.d = head_gradient().row_range(first, count), .a = logits, .b = buffers_.head});
    }
    scatter_tokens(head_gradient());
    ops_.add_sum(buffers_.losses, shape_.tokens(), each, &record_->loss);
  }

  /// Without `output` only what the backward pass needs: the input of the next layer is there already.
  void forward_layer(std::size_t l, bool output) {
    const auto& m = shape_.model;
    const auto unit = m.layers - l;
    use(unit);
    const auto& weights = buffers_.layers[l];
    const auto& k = kept(l);
    const bool before = m.norms_before();
    const auto norm = [&](Matrix<Element> x, const NormWeights<Element>& of, Matrix<Element> n,
                          const auto& statistics) {
      ops_.norm(x, of, m.norm_eps, own(n), statistics);
      gather_tokens(n);
    };
    if (before) norm(residual(l), weights.norm1, k.n1, k.norm1);
    linear(l, Linear::qkv).forward(ops_, before ? k.n1 : buffers_.x[l], k.u_qkv, Product{.d = k.qkv});
    rotate(k.qkv, Rotation::forward);
    // Where the next ones begin to travel: beside attention, which needs fewer multiprocessors than a product.
    for (std::size_t ahead = 1; output && ahead < layers_in_turns && ahead <= unit; ++ahead) gather(unit - ahead);
    ops_.attention(k.qkv, k.attended, k.lse, shape_.attention());
    add_projected(linear(l, Linear::o), k.attended, k.u_o, residual(l), k.middle);
    if (before) {
      norm(k.middle, weights.norm2, k.n2, k.norm2);
    } else {
      norm(k.middle, weights.norm1, k.n1, k.norm1);
    }
    linear(l, Linear::gate_up).forward(ops_, mlp_input(k), k.u_gate_up, Product{.d = k.gate_up});
    if (m.mlp == Mlp::swiglu) {
      ops_.swiglu(k.gate_up, k.h);
    } else {
      ops_.gelu(k.gate_up, k.h);
    }
    const auto& down = linear(l, Linear::down);
    if (!before) {
      add_projected(down, k.h, k.u_down, own(k.n1), k.n2);
      norm(k.n2, weights.norm2, buffers_.x[l + 1], k.norm2);
    } else if (output) {
      add_projected(down, k.h, k.u_down, k.middle, buffers_.x[l + 1]);
    } else {
      down.compress(ops_, k.h, k.u_down);
    }
  }

  /// to = residual + what this projection makes of x, of this rank's tokens. Ranks that compute it together have a part
  /// of the sum for all tokens, in which each adds the residual and the bias of its own.
  void add_projected(const Projection<Ops>& projection, Matrix<Element> x, Matrix<Element> u, Matrix<Element> residual,
                     Matrix<Element> to) {
    for (int r = 0; r < shape_.tensor; ++r) {
      const bool mine = r == shape_.tensor_rank;
      projection.forward(
          ops_, tokens_of(r, x), tokens_of(r, u),
          Product{.d = tokens_of(r, parts_of(to)), .beta = mine ? 1.0 : 0.0, .c = mine ? residual.data : nullptr},
          mine);
    }
    add_parts(to);
  }

  // Backward ----------------------------------------------------------------------------------------------------------

  void backward(bool sums) {
    const auto& m = shape_.model;
    if (m.norms_before()) {
      norm_backward(m.layers, Owner::final_norm, head_gradient(), residual(m.layers), buffers_.final_norm,
                    buffers_.final_statistics, false, {});
    }
    reduced_ = buckets_ = 0;
    for (std::size_t l = m.layers; l-- > 0;) {
      const auto unit = m.layers - l;
      use(unit);
      claim(unit);
      if (shape_.retain == Retain::inputs && l + 1 < m.layers) forward_layer(l, false);
      backward_layer(l, [&] {
        // Less than a bucket waits for the next layer; after the last one as little as possible is left, unless a
        // bucket is all of them.
        const auto complete = complete_before_attention(tensors_, m, l);
        const bool rest = l == 0 && shape_.bucket < layout_.count();
        const bool full = shape_.shard == Shard::weights || complete - reduced_ >= shape_.bucket;
        if (sums && (full || rest)) reduce(complete);
        for (std::size_t ahead = 1; ahead < layers_in_turns && unit + ahead <= m.layers; ++ahead) gather(unit + ahead);
      });
    }
    if (shape_.trains == Trains::all) {
      claim(m.layers + 1);
      embedding_backward();
    }
    if (!sums) return;
    if (const auto* const unit = replicated(); unit != nullptr && exchanges_) {
      ops_.sum_together(unit->gradient, layout_.units.back().used);
    }
    reduce(layout_.count());
  }

  /// Whether a gradient is added to that of the micro-batches before.
  bool adds() const { return micro_ > 0 && shape_.shard != Shard::weights; }

  /// Looks at the gradients that became complete since the last time, and sums them over ranks beside what follows.
  /// Where ranks share the state, each gets its share of the units that are complete.
  void reduce(std::size_t end) {
    if (!sharded() && end > reduced_) {
      Master* const values = buffers_.state.gradient + reduced_;
      if (reduced_ < counted()) {
        ops_.summarize(values, reduced_, std::min(end, counted()) - reduced_, &record_->local);
      }
      if (exchanges_) ops_.all_reduce(values, end - reduced_);
      reduced_ = end;
      ++buckets_;
    }
    for (std::size_t p = 0; sharded() && p < layout_.units.size(); ++p) {
      const auto& unit = layout_.units[p];
      if (unit.offset < reduced_ || unit.end() > end || unit.used == 0) continue;
      const auto& place = buffers_.units[p];
      ops_.set_bytes(place.gradient + unit.used, 0, (unit.size - unit.used) * sizeof(Master));
      const bool counts = unit.offset < counted();
      const auto look = [&](std::size_t first, std::size_t behind) {
        if (!counts || first >= behind) return;
        ops_.summarize(place.gradient + first, unit.offset + first, behind - first, &record_->local);
      };
      // Its own share is looked at as it is summed; in a step without sums by nobody, so that their times compare.
      const auto mine = static_cast<std::size_t>(shape_.rank) * place.own_count;
      look(0, std::min(mine, unit.used));
      look(mine + place.own_count, unit.used);
      if (exchanges_) {
        const bool last = micro_ + 1 == shape_.accumulation, add = shape_.shard == Shard::weights && micro_ > 0;
        ShareSummaries told{unit.offset + mine, &record_->share, place.own_offset, last ? &record_->reduced : nullptr,
                            &record_->fetched};
        if (!counts) told = {};
        sent_[place.slot] = ops_.reduce_scatter(place.gradient, place.own_gradient, place.own_count, add, told);
      }
      reduced_ = unit.end();
      ++buckets_;
    }
  }

  /// What AdamW's clipping looks at: the gradient of the whole model, in which what is replicated counts once. Each sum
  /// over ranks that share the state has told of its part.
  void summarize_reduced() {
    if (sharded()) {
      if (!exchanges_) return;
      ops_.all_reduce(&record_->reduced);
      return join();
    }
    const auto& last = buffers_.units[buffers_.units.size() - 1 - (shape_.tensor_rank > 0 ? 1 : 0)];
    ops_.summarize(buffers_.state.gradient, 0, last.own_offset + last.own_count, &record_->reduced);
  }

  // Ranks that compute the model together -----------------------------------------------------------------------------

  /// So many values of the flat array count in the norm here: of what all of them have, one has the sum.
  std::size_t counted() const { return shape_.tensor_rank > 0 ? layout_.units.back().offset : layout_.count(); }
  /// The unit that all of them have; nothing where one rank has the whole model.
  const typename Buffers<Element, Master>::UnitPlace* replicated() const {
    return shape_.tensor > 1 ? &buffers_.units.back() : nullptr;
  }
  Matrix<Element> tokens_of(int rank, Matrix<Element> all) const {
    return all.row_range(static_cast<std::size_t>(rank) * shape_.own_tokens(), shape_.own_tokens());
  }
  Matrix<Element> own(Matrix<Element> all) const { return tokens_of(shape_.tensor_rank, all); }
  /// The residual stream of this rank's tokens, before a layer or after the last.
  Matrix<Element> residual(std::size_t l) const {
    return shape_.model.norms_before() ? buffers_.x[l] : own(buffers_.x[l]);
  }
  /// Where the parts of a sum for all tokens stand; that of one rank is the sum.
  Matrix<Element> parts_of(Matrix<Element> sum) const { return shape_.tensor > 1 ? narrow(shape_.model.hidden) : sum; }
  void add_parts(Matrix<Element> sum) {
    if (shape_.tensor > 1 && exchanges_) ops_.scatter_tokens(narrow(shape_.model.hidden), sum);
  }
  void scatter_tokens(Matrix<Element> all) {
    if (shape_.tensor > 1 && exchanges_) ops_.scatter_tokens(all, own(all));
  }
  void gather_tokens(Matrix<Element> all) {
    if (shape_.tensor > 1 && exchanges_) ops_.gather_tokens(all);
  }

  // Shared state ------------------------------------------------------------------------------------------------------

  bool sharded() const { return shape_.shard != Shard::none; }

  // Who reads whose own weights when, where ranks fetch them by themselves. AdamW and `restart` write them.
  // - No fetch before what it reads is written: a rank meets the others between its writes and its fetches.
  // - No write before all fetches of what was there are done: a step joins its own and then sums the summary of the
  //   gradient over ranks, and AdamW waits for that sum. Whoever fetches outside of that ends with `settle`.
  // Without collectives a step fetches nothing and tells nobody what it writes; the next one with them begins by
  // meeting.

  /// What is queued from here on exchanges with other ranks, whose weights may have changed if the last one did not.
  void exchange() {
    if (std::exchange(exchanges_, true) || !sharded()) return;
    held_.assign(held_.size(), std::nullopt);
    ops_.meet();
  }
  /// All ranks are done with all fetches when what is queued from here on begins, and with all writes before.
  void settle() {
    join();
    ops_.meet();
    join();
  }

  /// The weights of a unit begin to travel to where it is used, unless they are there. What stood there must not be
  /// needed any more.
  void gather(std::size_t p) {
    const auto& place = buffers_.units[p];
    if (!sharded() || held_[place.slot] == p) return;
    held_[place.slot] = p;
    if (!exchanges_ || layout_.units[p].used == 0) return;
    arrived_[place.slot] = ops_.all_gather(place.own_weights, place.weights, place.own_count);
  }
  /// Of each slot the unit that the next step uses first; units come in the order of their use.
  void gather_first(std::size_t p) {
    if (!held_[buffers_.units[p].slot]) gather(p);
  }
  /// What is queued from here on finds the weights of this unit.
  void use(std::size_t p) {
    gather(p);
    wait(arrived_[buffers_.units[p].slot]);
  }
  /// What is queued from here on may write the gradient of this unit: that of the one before it has been sent.
  void claim(std::size_t p) { wait(sent_[buffers_.units[p].slot]); }

  void wait(std::optional<std::size_t>& ticket) {
    if (ticket) ops_.wait(*ticket);
    ticket.reset();
  }
  void join() {
    ops_.join_reductions();
    arrived_.assign(arrived_.size(), std::nullopt);
    sent_.assign(sent_.size(), std::nullopt);
  }

  ParameterSlot<Element> slot(const Piece& piece) const {
    const auto& t = tensors_[piece.tensor];
    if (shape_.trains == Trains::adapters) {
      return {t.offset, place(t), t.kind == Kind::b ? shape_.lora.scale() : 1, t.decays()};
    }
    const auto& unit = buffers_.units[t.unit];
    const auto at = own_offset(piece), inside = at - unit.own_offset;
    const auto gradient = static_cast<std::size_t>(unit.own_gradient - buffers_.state.gradient) + inside;
    return {at, {unit.own_weights + inside, 1, piece.count, piece.count}, 1, t.decays(), gradient - at};
  }

  /// In the place of the record of a step under way.
  template <class Summarize>
  Summary summary_of(const Summarize& summarize) {
    ops_.set_bytes(buffers_.records, 0, sizeof(Record));
    summarize(&buffers_.records->local);
    Record record;
    ops_.copy_out(&record, buffers_.records, sizeof record);
    return record.local;
  }

  /// dx: gradient of x[l + 1] before, of x[l] after (of layer 0 only if somebody needs it).
  /// `before_attention` is where sums over ranks begin: from there to the next product it is longest.
  template <class BeforeAttention>
  void backward_layer(std::size_t l, const BeforeAttention& before_attention) {
    const auto& weights = buffers_.layers[l];
    const auto& k = kept(l);
    const auto& m = shape_.model;
    const bool before = m.norms_before(), rebuild = shape_.retain == Retain::rebuild, accumulate = adds();
    const auto dx = buffers_.dx;
    const auto wide = buffers_.wide;

    if (!before) norm_backward(l, Owner::norm2, dx, k.n2, weights.norm2, k.norm2, false, {});
    gather_tokens(dx);
    const auto& down = linear(l, Linear::down);
    down.expand(ops_, dx, k.u_down, accumulate);
    down.input_gradient(ops_, dx, wide);
    if (m.mlp == Mlp::swiglu) {
      ops_.swiglu_backward(k.gate_up, wide, rebuild);  // k.h is `wide` then
    } else {
      ops_.gelu_backward(k.gate_up, wide, rebuild);
    }
    down.weight_gradient(ops_, dx, k.h, accumulate, own(dx));

    const auto& gate_up = linear(l, Linear::gate_up);
    gate_up.expand(ops_, k.gate_up, k.u_gate_up, accumulate);
    input_gradient(gate_up, k.gate_up);
    if (before) {
      norm_backward(l, Owner::norm2, narrow(m.hidden), k.middle, weights.norm2, k.norm2, true,
                    rebuild ? k.n2 : Matrix<Element>{});
    }
    gate_up.weight_gradient(ops_, k.gate_up, mlp_input(k), accumulate);
    if (!before) norm_backward(l, Owner::norm1, dx, k.middle, weights.norm1, k.norm1, false, {});
    gather_tokens(dx);

    const auto& o = linear(l, Linear::o);
    o.expand(ops_, dx, k.u_o, accumulate);
    o.input_gradient(ops_, dx, narrow(part_.q_width()));
    o.weight_gradient(ops_, dx, k.attended, accumulate, own(dx));

    before_attention();
    ops_.attention_backward(k.qkv, k.attended, k.lse, narrow(part_.q_width()), buffers_.d_qkv, shape_.attention());
    rotate(buffers_.d_qkv, Rotation::backward);
    const auto& qkv = linear(l, Linear::qkv);
    qkv.expand(ops_, buffers_.d_qkv, k.u_qkv, accumulate);
    // Below layer 0 there is the embedding alone.
    if (l > 0 || shape_.trains == Trains::all) {
      input_gradient(qkv, buffers_.d_qkv);
      if (before) {
        norm_backward(l, Owner::norm1, narrow(m.hidden), residual(l), weights.norm1, k.norm1, true,
                      rebuild ? k.n1 : Matrix<Element>{});
      }
    } else if (rebuild) {
      ops_.norm(buffers_.x[l], weights.norm1, m.norm_eps, k.n1, k.norm1);
    }
    qkv.weight_gradient(ops_, buffers_.d_qkv, before ? k.n1 : buffers_.x[l], accumulate);
  }

  /// Of what a projection reads, for this rank's tokens: where norms stand before it, in `narrow`; else dx becomes what
  /// was there and it.
  void input_gradient(const Projection<Ops>& projection, Matrix<Element> dy) {
    const bool add = !shape_.model.norms_before();
    const auto to = add ? buffers_.dx : narrow(shape_.model.hidden);
    for (int r = 0; add && r < shape_.tensor; ++r) {
      projection.input_gradient(ops_, tokens_of(r, dy), tokens_of(r, to), r == shape_.tensor_rank);
    }
    if (!add) projection.input_gradient(ops_, dy, to);
    scatter_tokens(to);
  }

  /// dx = (accumulate ? dx : 0) + what comes through the norm from dn, and the norm's own gradient if it is trained; of
  /// this rank's tokens. n comes back for all.
  void norm_backward(std::size_t l, Owner owner, Matrix<Element> dn, Matrix<Element> x,
                     const NormWeights<Element>& weights, const NormStatistics<Master>& statistics, bool accumulate,
                     Matrix<Element> n) {
    ops_.norm_backward(own(dn), x, weights, statistics, accumulate, own(buffers_.dx), n ? own(n) : n,
                       {gradient(owner, Kind::weight, l).data, gradient(owner, Kind::bias, l).data, adds()});
    if (n) gather_tokens(n);
  }

  /// Adds to what the head has left where they are tied.
  void embedding_backward() {
    const auto& m = shape_.model;
    const auto dx = buffers_.dx;
    const auto d_table = gradient(Owner::embedding, Kind::weight);
    const auto clear = [this](Matrix<Master> d) { ops_.set_bytes(d.data, 0, d.rows * d.cols * sizeof(Master)); };
    if (!m.tied && !adds()) clear(d_table);
    const auto first = micro_ * shape_.tokens();
    gather_tokens(dx);
    ops_.embedding_backward(dx, buffers_.inputs + first, buffers_.order + first, d_table);
    if (m.positions != Positions::learned) return;
    // A sum over sequences, each of which is one row. Positions behind the sequences' end have no gradient.
    const auto d_positions = gradient(Owner::positions, Kind::weight);
    if (!adds()) clear(d_positions);
    if (shape_.tensor_rank > 0) return;  // one of them adds it for all
    const auto row = shape_.seq * m.hidden;
    ops_.sum_rows(Matrix<Element>{dx.data, shape_.batch, row, row}, true, d_positions.data);
  }

  // Where things are --------------------------------------------------------------------------------------------------

  const Kept& kept(std::size_t l) const { return buffers_.kept.size() == 1 ? buffers_.kept[0] : buffers_.kept[l]; }
  Matrix<Element> mlp_input(const Kept& k) const { return shape_.model.norms_before() ? k.n2 : k.n1; }

  Matrix<Element> narrow(std::size_t cols) const { return {buffers_.narrow.data, buffers_.narrow.rows, cols, cols}; }
  Matrix<Element> head_gradient() const {
    return shape_.model.norms_before() ? narrow(shape_.model.hidden) : buffers_.dx;
  }

  void rotate(Matrix<Element> qkv, Rotation rotation) {
    if (shape_.model.positions == Positions::rope) ops_.rope(qkv, buffers_.rotations, shape_.attention(), rotation);
  }

  const Projection<Ops>& linear(std::size_t l, Linear linear) const {
    return projections_[l * linears.size() + static_cast<std::size_t>(linear)];
  }
  Projection<Ops> projection(std::size_t l, Linear linear) const {
    const auto& layer = buffers_.layers[l];
    const auto& f = buffers_.of(linear);
    const auto at = static_cast<std::size_t>(linear);
    const auto of = [&](Kind kind, Module module = Module::q) {
      return gradient(training::owner(linear), kind, l, module);
    };
    typename Projection<Ops>::Gradients gradients{of(Kind::weight), {}, of(Kind::bias).data};
    for (const auto& part : f.parts) {
      if (!part.adapted) continue;
      if (part.u == 0) gradients.a = of(Kind::a, part.module);
      gradients.b[static_cast<std::size_t>(part.module)] = of(Kind::b, part.module);
    }
    gradients.a.rows = f.rank_total;  // those of all parts, one below the other
    return {shape_, f, layer.weights[at], layer.biases[at], gradients};
  }

  /// Null data: there is no such tensor.
  Matrix<Master> gradient(Owner owner, Kind kind, std::optional<std::size_t> layer = std::nullopt,
                          Module module = Module::q) const {
    const auto found = std::find_if(tensors_.begin(), tensors_.end(), [&](const ParameterTensor& t) {
      return t.owner == owner && t.kind == kind && (!layer || t.layer == *layer) && t.module == module;
    });
    if (found == tensors_.end()) return {};
    const auto inside = found->offset - layout_.units[found->unit].offset;
    return {buffers_.units[found->unit].gradient + inside, found->rows, found->cols, found->cols};
  }

  static Linear linear_of(Owner of) {
    for (const auto linear : linears) {
      if (training::owner(linear) == of) return linear;
    }
    throw std::logic_error("a tensor of no projection");
  }

  /// Where the Element copy of a tensor stands, trained or not.
  Matrix<Element> place(const ParameterTensor& t) const {
    const auto row = [&t](Element* data) { return Matrix<Element>{data, t.rows, t.cols, t.cols}; };
    const auto of_norm = [&](const NormWeights<Element>& norm) {
      return row(t.kind == Kind::bias ? norm.shift : norm.gain);
    };
    switch (t.owner) {
      case Owner::embedding: return buffers_.embedding;
      case Owner::positions: return buffers_.positions;
      case Owner::head: return t.kind == Kind::bias ? row(buffers_.head_bias) : buffers_.head;
      case Owner::final_norm: return of_norm(buffers_.final_norm);
      case Owner::norm1: return of_norm(buffers_.layers[t.layer].norm1);
      case Owner::norm2: return of_norm(buffers_.layers[t.layer].norm2);
      default: break;
    }
    const auto which = linear_of(t.owner);
    const auto& layer = buffers_.layers[t.layer];
    const auto& f = buffers_.of(which);
    const auto weights = layer.weights[static_cast<std::size_t>(which)];
    if (t.kind == Kind::weight) return weights.block(0, 0, f.out, f.in);
    if (t.kind == Kind::bias) return row(layer.biases[static_cast<std::size_t>(which)]);
    const auto& part =
        *std::find_if(f.parts.begin(), f.parts.end(), [&](const Part& p) { return p.module == t.module; });
    const auto& projection = linear(t.layer, which);
    return t.kind == Kind::b ? projection.b_of(part) : projection.a().row_range(part.u, shape_.lora.rank);
  }

  /// Positions count from 0 in each sequence; angle = position / theta^(2 i / head_dim).
  void write_rotations() {
    if (buffers_.rotations == nullptr) return;
    const auto d = shape_.model.head_dim;
    std::vector<Master> table(shape_.seq * d);
    for (std::size_t p = 0; p < shape_.seq; ++p) {
      for (std::size_t i = 0; i < d / 2; ++i) {
        const double exponent = 2 * static_cast<double>(i) / static_cast<double>(d);
        const double angle = static_cast<double>(p) * std::pow(shape_.model.rope_theta, -exponent);
        table[p * d + i] = static_cast<Master>(std::cos(angle));
        table[p * d + d / 2 + i] = static_cast<Master>(std::sin(angle));
      }
    }
    ops_.copy_in(buffers_.rotations, table.data(), table.size() * sizeof(Master));
  }

  void collect() {
    if (recorded_ == 0) return;
    const auto before = records_.size();
    records_.resize(before + recorded_);
    ops_.copy_out(records_.data() + before, buffers_.records + 1, recorded_ * sizeof(Record));
    recorded_ = 0;
    for (auto i = before; i < records_.size(); ++i) records_[i].local = records_[i].local + records_[i].share;
    if (shape_.ranks > 1) return;
    for (auto i = before; i < records_.size(); ++i) records_[i].reduced = records_[i].local;
  }

  Ops& ops_;
  StepShape shape_;
  TransformerShape part_;
  FlatLayout layout_;
  const std::vector<ParameterTensor>& tensors_;
  std::vector<Piece> pieces_;  // what this rank updates
  decltype(std::declval<Ops&>().allocate(std::size_t{})) memory_;
  std::size_t bytes_;
  Buffers<Element, Master> buffers_;
  std::vector<Projection<Ops>> projections_;   // by layer and Linear
  std::vector<ParameterSlot<Element>> slots_;  // of the pieces

  std::vector<std::optional<std::size_t>> held_;  // by slot, the unit whose weights it has
  std::vector<std::optional<std::size_t>> arrived_,
      sent_;  // by slot, what its weights and gradient may have to wait for
  bool exchanges_ = true, repeats_ = false;
  std::uint64_t steps_ = 0;   // since restart, here or where this goes on from
  std::size_t recorded_ = 0;  // records on the device that nobody has read
  std::size_t micro_ = 0;
  std::size_t reduced_ = 0, buckets_ = 0;  // gradients that this step has given to the sums, and in how many
  Record* record_ = nullptr;
  std::vector<Record> records_;
};

}  // namespace shakedown::training
