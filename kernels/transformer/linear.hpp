// A projection of one layer: frozen with adapters, or trained. See FusedLinear for the layout of the matrices.
#pragma once

#include <array>

#include "kernels/transformer/buffers.hpp"

namespace shakedown::training {

/// Return the columns that follow those of a matrix, and the matrix including them.
template <class T>
Matrix<T> room_behind(Matrix<T> m, std::size_t cols) {
  return {m.data + m.cols, m.rows, cols, m.stride};
}
template <class T>
Matrix<T> widened(Matrix<T> m, std::size_t by) {
  return {m.data, m.rows, m.cols + by, m.stride};
}

template <TrainingOps Ops>
class Projection {
 public:
  using Element = typename Ops::Element;
  using Master = typename Ops::Master;
  using Product = Gemm<Element, Element>;
  using GradientProduct = Gemm<Element, Master>;

  /// Locations of its gradients. A part that it does not have is null.
  struct Gradients {
    Matrix<Master> weight, a;
    Master* bias = nullptr;
    std::array<Matrix<Master>, modules> b = {};  // one matrix for each module
  };

  /// `shape` and `linear` must outlive it.
  Projection(const StepShape& shape, const FusedLinear& linear, Matrix<Element> weights, const Element* bias,
             const Gradients& gradients)
      : lora_(shape.lora), path_(shape.path), f_(linear), weights_(weights), bias_(bias), gradients_(gradients) {}

  /// Computes Y = X W' + b + U (sB)', plus the addition that `y` describes. Omits b if another rank adds it.
  void forward(Ops& ops, Matrix<Element> x, Matrix<Element> u, Product y, bool biased = true) const {
    compress(ops, x, u);
    if (biased) y.bias = bias_;
    y.b_transposed = true;
    if (f_.rank_total > 0 && path_ == AdapterPath::augmented) {
      const auto behind = room_behind(x, f_.rank_total);
      if (behind.data != u.data) ops.copy(u, behind);
      y.a = widened(x, f_.rank_total);
      y.b = weights_.block(0, 0, f_.out, f_.in + f_.rank_total);
      return ops.gemm(y);
    }
    y.a = x;
    y.b = weights_.block(0, 0, f_.out, f_.in);
    ops.gemm(y);
    for (const auto& part : f_.parts) {
      if (!part.adapted) continue;
      ops.gemm(Product{.d = y.d.columns(part.row, part.rows),
                       .a = u.columns(part.u, lora_.rank),
                       .b = b_of(part),
                       .b_transposed = true,
                       .beta = 1});
    }
  }

  /// Computes U = X A'.
  void compress(Ops& ops, Matrix<const Element> x, Matrix<Element> u) const {
    if (f_.rank_total > 0) ops.gemm(Product{.d = u, .a = x, .b = a(), .b_transposed = true});
  }

  /// Computes dU = dY (sB), stored after the columns of dY, and dB = s dY' U.
  void expand(Ops& ops, Matrix<Element> dy, Matrix<const Element> u, bool accumulate) const {
    if (f_.rank_total == 0) return;
    const auto du = room_behind(dy, f_.rank_total);
    if (path_ == AdapterPath::augmented) {
      ops.gemm(Product{.d = du, .a = dy, .b = weights_.block(0, f_.in, f_.out, f_.rank_total)});
    }
    for (const auto& part : f_.parts) {
      if (!part.adapted) continue;
      const auto dy_part = dy.columns(part.row, part.rows);
      if (path_ == AdapterPath::separate) {
        ops.gemm(Product{.d = du.columns(part.u, lora_.rank), .a = dy_part, .b = b_of(part)});
      }
      ops.gemm(GradientProduct{.d = gradients_.b[static_cast<std::size_t>(part.module)],
                               .a = dy_part,
                               .a_transposed = true,
                               .b = u.columns(part.u, lora_.rank),
                               .alpha = lora_.scale(),
                               .beta = accumulate ? 1.0 : 0.0});
    }
  }

  /// Computes dX = dY W + dU A, and adds it to the previous value if `add`.
  void input_gradient(Ops& ops, Matrix<Element> dy, Matrix<Element> d_input, bool add = false) const {
    const double beta = add ? 1 : 0;
    if (f_.rank_total > 0 && path_ == AdapterPath::augmented) {
      return ops.gemm(Product{.d = d_input,
                              .a = widened(dy, f_.rank_total),
                              .b = weights_.block(0, 0, f_.out + f_.rank_total, f_.in),
                              .beta = beta});
    }
    ops.gemm(Product{.d = d_input, .a = dy, .b = weights_.block(0, 0, f_.out, f_.in), .beta = beta});
    if (f_.rank_total == 0) return;
    ops.gemm(Product{.d = d_input, .a = room_behind(dy, f_.rank_total), .b = a(), .beta = 1});
  }

  /// Computes dA = dU' X of the adapters, for all parts at once. If the weights are trained, also dW = dY' X and the
  /// bias gradient. That is the sum of the rows of dY, or of the rows that this rank must add.
  void weight_gradient(Ops& ops, Matrix<Element> dy, Matrix<const Element> x, bool accumulate,
                       Matrix<const Element> own = {}) const {
    const auto product = [&](Matrix<Master> d, Matrix<const Element> left) {
      ops.gemm(GradientProduct{.d = d, .a = left, .a_transposed = true, .b = x, .beta = accumulate ? 1.0 : 0.0});
    };
    if (f_.rank_total > 0) product(gradients_.a, room_behind(dy, f_.rank_total));
    if (gradients_.weight) product(gradients_.weight, dy);
    if (gradients_.bias != nullptr) ops.sum_rows(own ? own : dy, accumulate, gradients_.bias);
  }

  // Locations of its parts.
  Matrix<Element> a() const { return weights_.block(f_.out, 0, f_.rank_total, f_.in); }
  /// Returns s B of one part, a matrix of its rows x rank.
  Matrix<Element> b_of(const Part& part) const {
    return weights_.block(part.row, f_.in + part.u, part.rows, lora_.rank);
  }
  const FusedLinear& linear() const { return f_; }

 private:
  const LoraShape& lora_;
  AdapterPath path_;
  const FusedLinear& f_;
  Matrix<Element> weights_;
  const Element* bias_;
  Gradients gradients_;
};

}  // namespace shakedown::training
