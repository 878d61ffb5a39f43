// One LoRA training step of a decoder: forward, backward, sum of the gradients over ranks, AdamW. One text for the host
// and for CUDA, over the operations of ops.hpp. Frozen weights have no gradients, so the backward pass is what the
// adapters need and no more.
#pragma once

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "kernels/training/buffers.hpp"

namespace shakedown::training {

/// Numbers of the random tensors: each frozen matrix, bias and adapter has its own, the same for every backend and for
/// the peer script. Element (r, c) of a tensor with so many columns is stddev normal((number << 32) + r columns + c).
namespace tensor {
constexpr std::uint64_t embedding = 0, head = 1;
constexpr std::uint64_t of_layer(std::size_t layer) { return 32 * (layer + 1); }
constexpr std::uint64_t weight(std::size_t layer, Module m) { return of_layer(layer) + static_cast<std::uint64_t>(m); }
constexpr std::uint64_t qkv_bias(std::size_t layer) { return of_layer(layer) + 7; }
constexpr std::uint64_t a(std::size_t layer, Module m) { return of_layer(layer) + 8 + static_cast<std::uint64_t>(m); }
constexpr std::uint64_t b(std::size_t layer, Module m) { return of_layer(layer) + 16 + static_cast<std::uint64_t>(m); }
}  // namespace tensor

/// Standard deviation of all random weights; the frozen ones as Qwen2Config initialises them. B is not zero as in a
/// real fine-tuning: with B = 0 half of the backward pass would compute zeros.
inline constexpr double weight_stddev = 0.02;

/// Expected loss of the first step: the logits are normal with variance hidden stddev^2, whose log of the mean of exp
/// is half of it.
inline double expected_first_loss(const TransformerShape& model) {
  return std::log(static_cast<double>(model.vocab)) +
         static_cast<double>(model.hidden) * weight_stddev * weight_stddev / 2;
}

template <TrainingOps Ops>
class LoraStep {
 public:
  using Element = typename Ops::Element;
  using Master = typename Ops::Master;

  /// Allocates everything, in one piece. Weights and adapters are undefined until `initialize`.
  LoraStep(Ops& ops, const StepShape& shape)
      : ops_(ops),
        shape_(shape),
        tensors_(adapter_tensors(shape.model, shape.lora)),
        memory_(ops.allocate(bytes_for(ops, shape))),
        bytes_(bytes_for(ops, shape)),
        buffers_(carve(memory_.data(), ops, shape)) {
    ops_.use_workspace(buffers_.workspace);
    for (const auto& t : tensors_) slots_.push_back({t.offset, place(t), t.is_b ? shape_.lora.scale() : 1});
    ops_.place_adapters(slots_);
    write_rotations();
  }
  LoraStep(const LoraStep&) = delete;
  LoraStep& operator=(const LoraStep&) = delete;

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
  const std::vector<AdapterTensor>& tensors() const { return tensors_; }

  /// Random weights (see `tensor`), norms of one, random adapters; moments and records cleared; everything that a step
  /// must write before it reads it becomes NaN.
  void initialize() {
    ops_.set_bytes(memory_.data(), 0xff, bytes_);  // the workspace of the operations too
    ops_.place_adapters(slots_);
    write_rotations();
    const auto& m = shape_.model;
    const std::vector<Element> ones(m.hidden, Ops::to_element(1));
    const auto set_to_one = [&](Element* weight) { ops_.copy_in(weight, ones.data(), ones.size() * sizeof(Element)); };
    ops_.fill_normal(buffers_.embedding, weight_stddev, tensor::embedding);
    ops_.fill_normal(buffers_.head, weight_stddev, tensor::head);
    set_to_one(buffers_.final_norm);
    for (std::size_t l = 0; l < m.layers; ++l) {
      auto& layer = buffers_.layers[l];
      set_to_one(layer.norm1);
      set_to_one(layer.norm2);
      ops_.fill_normal({layer.qkv_bias, 1, m.qkv_width(), m.qkv_width()}, weight_stddev, tensor::qkv_bias(l));
      for (const auto linear : linears) {
        const auto weights = weights_of(l, linear);
        ops_.set_bytes(weights.data, 0, weights.rows * weights.stride * sizeof(Element));
        for (const auto& part : buffers_.of(linear).parts) {
          ops_.fill_normal(weights.block(part.row, 0, part.rows, buffers_.of(linear).in), weight_stddev,
                           tensor::weight(l, part.module));
        }
      }
    }
    initialize_adapters();
  }

  /// The adapters as `initialize` makes them, moments zero, no step taken. The frozen weights stay.
  void initialize_adapters() {
    for (const auto& t : tensors_) {
      const auto number = t.is_b ? tensor::b(t.layer, t.module) : tensor::a(t.layer, t.module);
      ops_.fill_normal(buffers_.state.parameters + t.offset, t.size(), weight_stddev, number);
    }
    restart();
  }

  /// After the parameters were written from outside: copies them to where the products read them, forgets moments and
  /// steps.
  void restart() {
    ops_.write_adapters(buffers_.state.parameters);
    ops_.set_bytes(buffers_.state.first_moment, 0, buffers_.state.count * sizeof(Master));
    ops_.set_bytes(buffers_.state.second_moment, 0, buffers_.state.count * sizeof(Master));
    steps_ = recorded_ = 0;
    records_.clear();
  }

  /// The tokens of the next steps: accumulation x batch x seq inputs, and as many targets, each below the vocabulary.
  void load(std::span<const int> inputs, std::span<const int> targets) {
    const auto count = shape_.accumulation * shape_.tokens();
    if (inputs.size() != count || targets.size() != count) throw std::invalid_argument("a batch of another size");
    ops_.copy_in(buffers_.inputs, inputs.data(), inputs.size_bytes());
    ops_.copy_in(buffers_.targets, targets.data(), targets.size_bytes());
  }

  /// Queues one step. Without collectives the ranks go their own ways: for measuring what they cost.
  void run(const AdamW& settings, bool collectives = true) {
    if (recorded_ == records_kept) collect();
    record_ = buffers_.records + recorded_++;
    ops_.set_bytes(record_, 0, sizeof(Record));
    ops_.mark(Mark::begin);
    for (micro_ = 0; micro_ < shape_.accumulation; ++micro_) {
      const bool last = micro_ + 1 == shape_.accumulation;
      if (last) ops_.mark(Mark::forward_begin);
      forward();
      if (last) ops_.mark(Mark::forward_end);
      backward(last, collectives);
    }
    ops_.mark(Mark::backward_end);
    if (collectives) ops_.join_reductions();
    ops_.mark(Mark::reduced);
    auto update = settings;
    update.step = ++steps_;
    // The gradient of a single rank has been looked at, bucket by bucket.
    if (shape_.ranks > 1) ops_.summarize(buffers_.state.gradient, 0, buffers_.state.count, &record_->reduced);
    ops_.adamw(buffers_.state, update, shape_.ranks > 1 ? &record_->reduced : &record_->local, &record_->updated);
    ops_.mark(Mark::end);
  }

  /// What the steps since `restart` left behind, the oldest first; waits for them.
  const std::vector<Record>& records() {
    collect();
    return records_;
  }

  /// Of the trainable parameters as they are now; waits.
  Summary parameter_summary() {
    // In the place of a record that is not in use: at least one is free after collecting.
    collect();
    ops_.set_bytes(buffers_.records, 0, sizeof(Record));
    ops_.summarize(buffers_.state.parameters, 0, buffers_.state.count, &buffers_.records->local);
    Record record;
    ops_.copy_out(&record, buffers_.records, sizeof record);
    return record.local;
  }

 private:
  using Product = Gemm<Element, Element>;
  using GradientProduct = Gemm<Element, Master>;
  using Kept = typename Buffers<Element, Master>::Kept;

  static Buffers<Element, Master> carve(std::byte* base, Ops& ops, const StepShape& shape) {
    Arena arena(base);
    return Buffers<Element, Master>(arena, shape, ops.workspace_bytes());
  }

  // Forward -----------------------------------------------------------------------------------------------------------

  /// Logits exist a chunk at a time and turn into their gradients in place, so the head's part of the backward pass is
  /// here too. Leaves the gradient of the final norm's output in `narrow`.
  void forward() {
    const auto& m = shape_.model;
    ops_.embedding(buffers_.embedding, buffers_.inputs + micro_ * shape_.tokens(), buffers_.x[0]);
    for (std::size_t l = 0; l < m.layers; ++l) forward_layer(l, true);
    const auto normed = narrow(m.hidden);
    ops_.rmsnorm(buffers_.x[m.layers], buffers_.final_norm, m.rms_eps, normed, buffers_.final_rstd);
    const double each = 1 / static_cast<double>(shape_.accumulation * shape_.tokens());
    const int* const targets = buffers_.targets + micro_ * shape_.tokens();
    for (std::size_t first = 0; first < shape_.tokens(); first += shape_.loss_chunk) {
      const auto count = std::min(shape_.loss_chunk, shape_.tokens() - first);
      const auto rows = normed.row_range(first, count);
      const auto logits = buffers_.logits.row_range(0, count);
      ops_.gemm(Product{.d = logits, .a = rows, .b = buffers_.head, .b_transposed = true});
      ops_.cross_entropy(logits, targets + first, each / shape_.ranks, buffers_.losses + first);
      ops_.gemm(Product{.d = rows, .a = logits, .b = buffers_.head});
    }
    ops_.add_sum(buffers_.losses, shape_.tokens(), each, &record_->loss);
  }

  /// Without `output` only what the backward pass needs: the input of the next layer is there already.
  void forward_layer(std::size_t l, bool output) {
    const auto& weights = buffers_.layers[l];
    const auto& k = kept(l);
    const auto& x = buffers_.x[l];
    ops_.rmsnorm(x, weights.norm1, shape_.model.rms_eps, k.n1, k.rstd1);
    project(Linear::qkv, l, k.n1, k.u_qkv, Product{.d = k.qkv, .bias = weights.qkv_bias});
    ops_.rope(k.qkv, buffers_.rotations, shape_.attention(), Rotation::forward);
    ops_.attention(k.qkv, k.attended, k.lse, shape_.attention());
    project(Linear::o, l, k.attended, k.u_o, Product{.d = k.middle, .beta = 1, .c = x.data});
    ops_.rmsnorm(k.middle, weights.norm2, shape_.model.rms_eps, k.n2, k.rstd2);
    project(Linear::gate_up, l, k.n2, k.u_gate_up, Product{.d = k.gate_up});
    ops_.swiglu(k.gate_up, k.h);
    if (output) {
      project(Linear::down, l, k.h, k.u_down, Product{.d = buffers_.x[l + 1], .beta = 1, .c = k.middle.data});
    } else {
      compress(Linear::down, l, k.h, k.u_down);
    }
  }

  /// U = X A'
  void compress(Linear linear, std::size_t l, Matrix<const Element> x, Matrix<Element> u) {
    if (buffers_.of(linear).rank_total == 0) return;
    ops_.gemm(Product{.d = u, .a = x, .b = a_of(l, linear), .b_transposed = true});
  }

  /// Y = X W' + U (sB)', and what `y` says besides.
  void project(Linear linear, std::size_t l, Matrix<Element> x, Matrix<Element> u, Product y) {
    const auto& f = buffers_.of(linear);
    compress(linear, l, x, u);
    if (f.rank_total > 0 && shape_.path == AdapterPath::augmented) {
      const auto behind = room(x, f.rank_total);
      if (behind.data != u.data) ops_.copy(u, behind);
      y.a = widened(x, f.rank_total);
      y.b = weights_of(l, linear).block(0, 0, f.out, f.in + f.rank_total);
      y.b_transposed = true;
      return ops_.gemm(y);
    }
    y.a = x;
    y.b = weights_of(l, linear).block(0, 0, f.out, f.in);
    y.b_transposed = true;
    ops_.gemm(y);
    for (const auto& part : f.parts) {
      if (!part.adapted) continue;
      ops_.gemm(Product{.d = y.d.columns(part.row, part.rows),
                        .a = u.columns(part.u, shape_.lora.rank),
                        .b = b_of(l, linear, part),
                        .b_transposed = true,
                        .beta = 1});
    }
  }

  // Backward ----------------------------------------------------------------------------------------------------------

  void backward(bool last, bool collectives) {
    const auto& m = shape_.model;
    ops_.rmsnorm_backward(narrow(m.hidden), buffers_.x[m.layers], buffers_.final_norm, buffers_.final_rstd, false,
                          buffers_.dx, {});
    reduced_ = buckets_ = 0;
    for (std::size_t l = m.layers; l-- > 0;) {
      if (shape_.retain == Retain::inputs && l + 1 < m.layers) forward_layer(l, false);
      backward_layer(l, [&] {
        // Less than a bucket waits for the next layer; after the last one as little as possible is left, unless a
        // bucket is all of them.
        const auto complete = complete_before_attention(l);
        const bool rest = l == 0 && shape_.bucket < buffers_.state.count;
        if (last && (complete - reduced_ >= shape_.bucket || rest)) reduce(complete, collectives);
      });
    }
    if (last) reduce(buffers_.state.count, collectives);
  }

  /// Gradients that are complete when the backward pass comes to the attention of a layer: all but those of the layers
  /// below, and of the projection before the attention.
  std::size_t complete_before_attention(std::size_t l) const {
    std::size_t end = 0;
    for (const auto& t : tensors_) {
      const bool behind = t.module != Module::q && t.module != Module::k && t.module != Module::v;
      if (t.layer > l || (t.layer == l && behind)) end = t.offset + t.size();
    }
    return end;
  }

  /// Looks at the gradients that became complete since the last time, and sums them over ranks beside what follows.
  void reduce(std::size_t end, bool collectives) {
    if (end == reduced_) return;
    Master* const values = buffers_.state.gradient + reduced_;
    ops_.summarize(values, reduced_, end - reduced_, &record_->local);
    if (collectives) ops_.all_reduce(values, end - reduced_);
    reduced_ = end;
    ++buckets_;
  }

  /// dx: gradient of x[l + 1] before, of x[l] after (layer 0: nobody needs it, it stops in the middle).
  /// `before_attention` is where sums over ranks begin: from there to the next product it is longest.
  template <class BeforeAttention>
  void backward_layer(std::size_t l, const BeforeAttention& before_attention) {
    const auto& weights = buffers_.layers[l];
    const auto& k = kept(l);
    const auto& m = shape_.model;
    const bool rebuild = shape_.retain == Retain::rebuild;
    const auto dx = buffers_.dx;
    const auto wide = buffers_.wide;

    expand(Linear::down, l, dx, k.u_down);
    input_gradient(Linear::down, l, dx, wide);
    ops_.swiglu_backward(k.gate_up, wide, rebuild);  // k.h is `wide` then
    a_gradient(Linear::down, l, dx, k.h);

    expand(Linear::gate_up, l, k.gate_up, k.u_gate_up);
    input_gradient(Linear::gate_up, l, k.gate_up, narrow(m.hidden));
    ops_.rmsnorm_backward(narrow(m.hidden), k.middle, weights.norm2, k.rstd2, true, dx,
                          rebuild ? k.n2 : Matrix<Element>{});
    a_gradient(Linear::gate_up, l, k.gate_up, k.n2);

    expand(Linear::o, l, dx, k.u_o);
    input_gradient(Linear::o, l, dx, narrow(m.q_width()));
    a_gradient(Linear::o, l, dx, k.attended);

    before_attention();
    ops_.attention_backward(k.qkv, k.attended, k.lse, narrow(m.q_width()), buffers_.d_qkv, shape_.attention());
    ops_.rope(buffers_.d_qkv, buffers_.rotations, shape_.attention(), Rotation::backward);
    expand(Linear::qkv, l, buffers_.d_qkv, k.u_qkv);
    if (l > 0) {
      input_gradient(Linear::qkv, l, buffers_.d_qkv, narrow(m.hidden));
      ops_.rmsnorm_backward(narrow(m.hidden), buffers_.x[l], weights.norm1, k.rstd1, true, dx,
                            rebuild ? k.n1 : Matrix<Element>{});
    } else if (rebuild) {
      ops_.rmsnorm(buffers_.x[l], weights.norm1, m.rms_eps, k.n1, k.rstd1);
    }
    a_gradient(Linear::qkv, l, buffers_.d_qkv, k.n1);
  }

  /// dU = dY (sB) in the room behind dY, and dB = s dY' U.
  void expand(Linear linear, std::size_t l, Matrix<Element> dy, Matrix<const Element> u) {
    const auto& f = buffers_.of(linear);
    if (f.rank_total == 0) return;
    const auto rank = shape_.lora.rank;
    const auto du = room(dy, f.rank_total);
    if (shape_.path == AdapterPath::augmented) {
      ops_.gemm(Product{.d = du, .a = dy, .b = weights_of(l, linear).block(0, f.in, f.out, f.rank_total)});
    }
    for (const auto& part : f.parts) {
      if (!part.adapted) continue;
      const auto dy_part = dy.columns(part.row, part.rows);
      if (shape_.path == AdapterPath::separate) {
        ops_.gemm(Product{.d = du.columns(part.u, rank), .a = dy_part, .b = b_of(l, linear, part)});
      }
      ops_.gemm(GradientProduct{.d = gradient_of(l, part.module, true),
                                .a = dy_part,
                                .a_transposed = true,
                                .b = u.columns(part.u, rank),
                                .alpha = shape_.lora.scale(),
                                .beta = micro_ == 0 ? 0.0 : 1.0});
    }
  }

  /// dX = dY W + dU A
  void input_gradient(Linear linear, std::size_t l, Matrix<Element> dy, Matrix<Element> d_input) {
    const auto& f = buffers_.of(linear);
    const auto weights = weights_of(l, linear);
    if (f.rank_total > 0 && shape_.path == AdapterPath::augmented) {
      return ops_.gemm(
          Product{.d = d_input, .a = widened(dy, f.rank_total), .b = weights.block(0, 0, f.out + f.rank_total, f.in)});
    }
    ops_.gemm(Product{.d = d_input, .a = dy, .b = weights.block(0, 0, f.out, f.in)});
    if (f.rank_total == 0) return;
    ops_.gemm(Product{.d = d_input, .a = room(dy, f.rank_total), .b = a_of(l, linear), .beta = 1});
  }

  /// dA = dU' X, of all parts at once
  void a_gradient(Linear linear, std::size_t l, Matrix<Element> dy, Matrix<const Element> x) {
    const auto& f = buffers_.of(linear);
    if (f.rank_total == 0) return;
    const auto first = std::find_if(f.parts.begin(), f.parts.end(), [](const Part& part) { return part.adapted; });
    auto d = gradient_of(l, first->module, false);
    d.rows = f.rank_total;
    ops_.gemm(GradientProduct{
        .d = d, .a = room(dy, f.rank_total), .a_transposed = true, .b = x, .beta = micro_ == 0 ? 0.0 : 1.0});
  }

  // Where things are --------------------------------------------------------------------------------------------------

  const Kept& kept(std::size_t l) const { return buffers_.kept.size() == 1 ? buffers_.kept[0] : buffers_.kept[l]; }

  Matrix<Element> narrow(std::size_t cols) const { return {buffers_.narrow.data, buffers_.narrow.rows, cols, cols}; }

  /// The columns behind those of a matrix.
  static Matrix<Element> room(Matrix<Element> m, std::size_t cols) { return {m.data + m.cols, m.rows, cols, m.stride}; }
  static Matrix<Element> widened(Matrix<Element> m, std::size_t by) { return {m.data, m.rows, m.cols + by, m.stride}; }

  Matrix<Element> weights_of(std::size_t l, Linear linear) const {
    const auto& layer = buffers_.layers[l];
    switch (linear) {
      case Linear::qkv: return layer.qkv;
      case Linear::o: return layer.o;
      case Linear::gate_up: return layer.gate_up;
      case Linear::down: break;
    }
    return layer.down;
  }
  Matrix<Element> a_of(std::size_t l, Linear linear) const {
    const auto& f = buffers_.of(linear);
    return weights_of(l, linear).block(f.out, 0, f.rank_total, f.in);
  }
  /// s B of one part: its rows x rank.
  Matrix<Element> b_of(std::size_t l, Linear linear, const Part& part) const {
    return weights_of(l, linear).block(part.row, buffers_.of(linear).in + part.u, part.rows, shape_.lora.rank);
  }

  const AdapterTensor& tensor_of(std::size_t l, Module module, bool is_b) const {
    return *std::find_if(tensors_.begin(), tensors_.end(),
                         [&](const AdapterTensor& t) { return t.layer == l && t.module == module && t.is_b == is_b; });
  }
  Matrix<Master> gradient_of(std::size_t l, Module module, bool is_b) const {
    const auto& t = tensor_of(l, module, is_b);
    return {buffers_.state.gradient + t.offset, t.rows, t.cols, t.cols};
  }

  Matrix<Element> place(const AdapterTensor& t) const {
    for (const auto linear : linears) {
      for (const auto& part : buffers_.of(linear).parts) {
        if (part.module != t.module) continue;
        if (t.is_b) return b_of(t.layer, linear, part);
        return a_of(t.layer, linear).row_range(part.u, shape_.lora.rank);
      }
    }
    throw std::logic_error("an adapter of no projection");
  }

  /// Positions count from 0 in each sequence; angle = position / theta^(2 i / head_dim).
  void write_rotations() {
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
    ops_.copy_out(records_.data() + before, buffers_.records, recorded_ * sizeof(Record));
    recorded_ = 0;
    if (shape_.ranks > 1) return;
    for (auto i = before; i < records_.size(); ++i) records_[i].reduced = records_[i].local;
  }

  Ops& ops_;
  StepShape shape_;
  std::vector<AdapterTensor> tensors_;
  decltype(std::declval<Ops&>().allocate(std::size_t{})) memory_;
  std::size_t bytes_;
  Buffers<Element, Master> buffers_;
  std::vector<AdapterSlot<Element>> slots_;

  std::uint64_t steps_ = 0;   // since restart
  std::size_t recorded_ = 0;  // records on the device that nobody has read
  std::size_t micro_ = 0;
  std::size_t reduced_ = 0, buckets_ = 0;  // gradients that this step has given to the sums, and in how many
  Record* record_ = nullptr;
  std::vector<Record> records_;
};

}  // namespace shakedown::training
