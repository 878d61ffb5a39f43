// The layers of a transformer, forward and backward. In a tensor parallel group, each rank has all tokens of the inputs
// and outputs of projections. Between projections it has a part of the tokens (sequence parallel, Korthikanti et al.
// 2022, arXiv 2205.05198).
#pragma once

#include "kernels/transformer/places.hpp"
#include "kernels/transformer/weight_store.hpp"

namespace shakedown::training {

template <TrainingOps Ops>
class Layers {
 public:
  using Element = typename Ops::Element;
  using Master = typename Ops::Master;

  /// All arguments must outlive it.
  Layers(Ops& ops, const StepShape& shape, const Buffers<Element, Master>& buffers, const Places<Ops>& places,
         WeightStore<Ops>& weights)
      : ops_(ops), shape_(shape), part_(shape.part()), buffers_(buffers), places_(places), weights_(weights) {}

  /// Runs the forward pass of a layer. Without `output`, it only recomputes what the backward pass needs, because the
  /// next layer's input already exists.
  void forward(std::size_t l, bool output) {
    const auto& m = shape_.model;
    const auto unit = m.layers - l;
    weights_.use(unit);
    const auto& weights = buffers_.layers[l];
    const auto& k = kept(l);
    const bool before = m.norms_before();
    const auto norm = [&](Matrix<Element> x, const NormWeights<Element>& of, Matrix<Element> n,
                          const auto& statistics) {
      ops_.norm(x, of, m.norm_eps, own(n), statistics);
      gather_tokens(n);
    };
    if (before) norm(residual(l), weights.norm1, k.n1, k.norm1);
    project(places_.linear(l, Linear::qkv), before ? k.n1 : buffers_.x[l], k.u_qkv, k.qkv);
    rotate(k.qkv, Rotation::forward);
    // Transfers of the next layers start here, so that they overlap with attention, which needs fewer multiprocessors
    // than a product.
    for (std::size_t ahead = 1; output && ahead < layers_in_turns && ahead <= unit; ++ahead)
      weights_.gather(unit - ahead);
    ops_.attention(k.qkv, k.attended, k.lse, shape_.attention());
    add_projected(places_.linear(l, Linear::o), k.attended, k.u_o, residual(l), k.middle);
    if (before) {
      norm(k.middle, weights.norm2, k.n2, k.norm2);
    } else {
      norm(k.middle, weights.norm1, k.n1, k.norm1);
    }
    project(places_.linear(l, Linear::gate_up), mlp_input(k), k.u_gate_up, k.gate_up);
    if (m.mlp == Mlp::swiglu) {
      ops_.swiglu(k.gate_up, k.h);
    } else {
      ops_.gelu(k.gate_up, k.h);
    }
    const auto& down = places_.linear(l, Linear::down);
    if (!before) {
      add_projected(down, k.h, k.u_down, own(k.n1), k.n2);
      norm(k.n2, weights.norm2, buffers_.x[l + 1], k.norm2);
    } else if (output) {
      add_projected(down, k.h, k.u_down, k.middle, buffers_.x[l + 1]);
    } else {
      down.compress(ops_, k.h, k.u_down);
    }
  }

  /// Runs the backward pass of a layer. dx holds the gradient of x[l + 1] before, and of x[l] after (for layer 0 only
  /// if it is needed). Gradients of weights are added to their previous values if `accumulate`. Sums over ranks start
  /// in `before_attention`, because the time from there to the next product is longest.
  template <class BeforeAttention>
  void backward(std::size_t l, bool accumulate, const BeforeAttention& before_attention) {
    const auto& weights = buffers_.layers[l];
    const auto& k = kept(l);
    const auto& m = shape_.model;
    const bool before = m.norms_before(), rebuild = shape_.retain == Retain::rebuild;
    const NormAt norm1{l, Owner::norm1, before ? residual(l) : k.middle, weights.norm1, k.norm1};
    const NormAt norm2{l, Owner::norm2, before ? k.middle : k.n2, weights.norm2, k.norm2};
    const auto dx = buffers_.dx;
    const auto wide = buffers_.wide;

    if (!before) norm_backward(norm2, dx, false, {}, accumulate);
    gather_tokens(dx);
    const auto& down = places_.linear(l, Linear::down);
    down.expand(ops_, dx, k.u_down, accumulate);
    down.quantize_columns(ops_);
    down.input_gradient(ops_, dx, wide);
    if (m.mlp == Mlp::swiglu) {
      ops_.swiglu_backward(k.gate_up, wide, rebuild);  // k.h is then the same as `wide`
    } else {
      ops_.gelu_backward(k.gate_up, wide, rebuild);
    }
    down.weight_gradient(ops_, dx, k.h, accumulate, own(dx));

    const auto& gate_up = places_.linear(l, Linear::gate_up);
    gate_up.expand(ops_, k.gate_up, k.u_gate_up, accumulate);
    input_gradient(gate_up, k.gate_up);
    if (before) {
      norm_backward(norm2, narrow(m.hidden), true, rebuild ? k.n2 : Matrix<Element>{}, accumulate);
    }
    gate_up.weight_gradient(ops_, k.gate_up, mlp_input(k), accumulate);
    if (!before) norm_backward(norm1, dx, false, {}, accumulate);
    gather_tokens(dx);

    const auto& o = places_.linear(l, Linear::o);
    o.expand(ops_, dx, k.u_o, accumulate);
    o.quantize_columns(ops_);
    o.input_gradient(ops_, dx, narrow(part_.q_width()));
    o.weight_gradient(ops_, dx, k.attended, accumulate, own(dx));

    before_attention();
    ops_.attention_backward(k.qkv, k.attended, k.lse, narrow(part_.q_width()), buffers_.d_qkv, shape_.attention());
    rotate(buffers_.d_qkv, Rotation::backward);
    const auto& qkv = places_.linear(l, Linear::qkv);
    qkv.expand(ops_, buffers_.d_qkv, k.u_qkv, accumulate);
    // Only the embedding precedes layer 0.
    if (l > 0 || shape_.trains == Trains::all) {
      input_gradient(qkv, buffers_.d_qkv);
      if (before) {
        norm_backward(norm1, narrow(m.hidden), true, rebuild ? k.n1 : Matrix<Element>{}, accumulate);
      }
    } else if (rebuild) {
      ops_.norm(buffers_.x[l], weights.norm1, m.norm_eps, k.n1, k.norm1);
    }
    qkv.weight_gradient(ops_, buffers_.d_qkv, before ? k.n1 : buffers_.x[l], accumulate);
  }

  /// A norm and its input.
  struct NormAt {
    std::size_t layer;
    Owner owner;
    Matrix<Element> x;
    NormWeights<Element> weights;
    NormStatistics<Master> statistics;
  };
  /// Computes dx = (add ? dx : 0) + the gradient through the norm from dn, for this rank's tokens. The function also
  /// computes the norm's own gradient if it is trained, and adds it to the previous value if `accumulate`. n, if
  /// wanted, is returned for all tokens.
  void norm_backward(const NormAt& norm, Matrix<Element> dn, bool add, Matrix<Element> n, bool accumulate) {
    const auto gradient = [&](Kind kind) { return places_.gradient(norm.owner, kind, norm.layer).data; };
    ops_.norm_backward(own(dn), norm.x, norm.weights, norm.statistics, add, own(buffers_.dx), n ? own(n) : n,
                       NormGradient<Master>{gradient(Kind::weight), gradient(Kind::bias), accumulate});
    if (n) gather_tokens(n);
  }

  /// The values that are quantized: the rows of a matrix, or its columns. A factor may be larger than its row needs if
  /// it `may_exceed`.
  struct Source {
    Matrix<Element> values;
    bool by_columns = false, may_exceed = false;
  };

  /// Queues the quantized products of layer 0 again, each with the input that the last step has left. The input and the
  /// gradients of weights are lost afterwards. Calls body(product, source of a, source of b) after each product.
  template <class Body>
  void repeat_quantized(const Body& body) {
    const auto& k = kept(0);
    const auto& wide = buffers_.wide;
    const auto hidden = narrow(shape_.model.hidden), attended = narrow(part_.q_width());
    weights_.use(shape_.model.layers);
    const auto back = [&](Linear which, Matrix<Element> dy, Matrix<Element> to) {
      const auto& projection = places_.linear(0, which);
      projection.quantize_columns(ops_);
      const auto input = widened(dy, projection.linear().rank_total);
      const auto product = projection.quantized_input_gradient(ops_, input, to);
      ops_.gemm(product);
      body(product, Source{input}, Source{projection.with_a(), true, !projection.is_trained()});
    };
    back(Linear::down, buffers_.dx, {wide.data, wide.rows, part_.intermediate, part_.intermediate});
    back(Linear::gate_up, k.gate_up, hidden);
    back(Linear::o, buffers_.dx, attended);
    back(Linear::qkv, buffers_.d_qkv, hidden);
    const auto gradient = [&](Linear which, Matrix<Element> dy, Matrix<Element> x) {
      const auto& projection = places_.linear(0, which);
      if (!projection.is_trained()) return;
      const auto product = projection.quantized_weight_gradient(ops_, dy, x, false);
      ops_.gemm(product);
      body(product, Source{dy, true}, Source{x, true});
    };
    gradient(Linear::down, buffers_.dx, k.h);
    gradient(Linear::gate_up, k.gate_up, mlp_input(k));
    gradient(Linear::o, buffers_.dx, k.attended);
    gradient(Linear::qkv, buffers_.d_qkv, k.n1);
    const auto forth = [&](Linear which, Matrix<Element> x, Matrix<Element> to) {
      const auto& projection = places_.linear(0, which);
      projection.quantize_rows(ops_);
      const auto input = widened(x, projection.linear().rank_total);
      const auto product =
          projection.quantized_forward(ops_, input, {.d = to, .bias = buffers_.layers[0].biases[at(which)]});
      ops_.gemm(product);
      body(product, Source{input}, Source{projection.with_b(), false, !projection.is_trained()});
    };
    forth(Linear::qkv, k.n1, k.qkv);
    forth(Linear::o, k.attended, hidden);
    forth(Linear::gate_up, mlp_input(k), k.gate_up);
    forth(Linear::down, k.h, hidden);
  }

  // Tokens ------------------------------------------------------------------------------------------------------------

  Matrix<Element> tokens_of(int rank, Matrix<Element> all) const {
    return all.row_range(static_cast<std::size_t>(rank) * shape_.own_tokens(), shape_.own_tokens());
  }
  Matrix<Element> own(Matrix<Element> all) const { return tokens_of(shape_.tensor_rank, all); }
  /// Returns the residual stream of this rank's tokens, before a layer or after the last.
  Matrix<Element> residual(std::size_t l) const {
    return shape_.model.norms_before() ? buffers_.x[l] : own(buffers_.x[l]);
  }
  /// Returns the location of the parts of a sum for all tokens; with one rank, the part is the sum.
  Matrix<Element> parts_of(Matrix<Element> sum) const { return shape_.tensor > 1 ? narrow(shape_.model.hidden) : sum; }
  void add_parts(Matrix<Element> sum) {
    if (shape_.tensor > 1 && weights_.exchanges()) ops_.scatter_tokens(narrow(shape_.model.hidden), sum);
  }
  void scatter_tokens(Matrix<Element> all) {
    if (shape_.tensor > 1 && weights_.exchanges()) ops_.scatter_tokens(all, own(all));
  }
  void gather_tokens(Matrix<Element> all) {
    if (shape_.tensor > 1 && weights_.exchanges()) ops_.gather_tokens(all);
  }

  Matrix<Element> narrow(std::size_t cols) const { return {buffers_.narrow.data, buffers_.narrow.rows, cols, cols}; }

 private:
  using Product = Gemm<Element, Element>;
  using Kept = typename Buffers<Element, Master>::Kept;

  void project(const Projection<Ops>& projection, Matrix<Element> x, Matrix<Element> u, Matrix<Element> to) {
    projection.quantize_rows(ops_);
    projection.forward(ops_, x, u, Product{.d = to});
  }

  /// Computes to = residual + the projection of x, for this rank's tokens. In a tensor parallel group, each rank
  /// computes its part of the sum for all tokens; it adds the residual and the bias only for its own tokens.
  void add_projected(const Projection<Ops>& projection, Matrix<Element> x, Matrix<Element> u, Matrix<Element> residual,
                     Matrix<Element> to) {
    projection.quantize_rows(ops_);
    for (int r = 0; r < shape_.tensor; ++r) {
      const bool mine = r == shape_.tensor_rank;
      projection.forward(
          ops_, tokens_of(r, x), tokens_of(r, u),
          Product{.d = tokens_of(r, parts_of(to)), .beta = mine ? 1.0 : 0.0, .c = mine ? residual.data : nullptr},
          mine);
    }
    add_parts(to);
  }

  /// Computes the gradient of a projection's input, for this rank's tokens. In a pre-norm model it is written to
  /// `narrow`; otherwise it is added to dx.
  void input_gradient(const Projection<Ops>& projection, Matrix<Element> dy) {
    const bool add = !shape_.model.norms_before();
    const auto to = add ? buffers_.dx : narrow(shape_.model.hidden);
    projection.quantize_columns(ops_);
    for (int r = 0; add && r < shape_.tensor; ++r) {
      projection.input_gradient(ops_, tokens_of(r, dy), tokens_of(r, to), r == shape_.tensor_rank);
    }
    if (!add) projection.input_gradient(ops_, dy, to);
    scatter_tokens(to);
  }

  static std::size_t at(Linear which) { return static_cast<std::size_t>(which); }
  const Kept& kept(std::size_t l) const { return buffers_.kept.size() == 1 ? buffers_.kept[0] : buffers_.kept[l]; }
  Matrix<Element> mlp_input(const Kept& k) const { return shape_.model.norms_before() ? k.n2 : k.n1; }

  void rotate(Matrix<Element> qkv, Rotation rotation) {
    if (shape_.model.positions == Positions::rope) ops_.rope(qkv, buffers_.rotations, shape_.attention(), rotation);
  }

  Ops& ops_;
  const StepShape& shape_;
  TransformerShape part_;
  const Buffers<Element, Master>& buffers_;
  const Places<Ops>& places_;
  WeightStore<Ops>& weights_;
};

}  // namespace shakedown::training
