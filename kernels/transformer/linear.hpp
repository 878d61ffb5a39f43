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

  /// Quantized weights, by rows and by columns, and memory for quantized operands: the input of a product, and the
  /// second operand of the gradient of trained weights. Null: products are not quantized. Projections with trained
  /// weights share all of this memory.
  struct Quantized {
    QuantizedRows weights, transposed, input, second;
  };

  /// `shape` and `linear` must outlive it.
  Projection(const StepShape& shape, const FusedLinear& linear, Matrix<Element> weights, const Element* bias,
             const Gradients& gradients, const Quantized& quantized)
      : lora_(shape.lora),
        path_(shape.path),
        f_(linear),
        weights_(weights),
        bias_(bias),
        gradients_(gradients),
        quantized_(quantized) {}

  /// Quantizes the frozen weights with the adapters. Later, only the adapters are quantized again. Trained weights are
  /// quantized before each use.
  void quantize_weights(Ops& ops) const {
    if (!is_quantized() || is_trained()) return;
    for (const auto& rows : {quantized_.weights, quantized_.transposed}) {
      ops.set_bytes(rows.scales, 0, rows.values.rows * sizeof(float));
    }
    ops.requantize(with_b(), f_.in, quantized_.weights);
    ops.requantize_transposed(with_a(), f_.out, quantized_.transposed);
  }

  /// Quantize what has changed in the weights for the products that follow: forward, or for the gradient of the input.
  void quantize_rows(Ops& ops) const {
    if (!is_quantized()) return;
    if (is_trained()) return ops.quantize(with_b(), quantized_.weights);
    if (f_.rank_total > 0) ops.requantize(with_b(), f_.in, quantized_.weights);
  }
  void quantize_columns(Ops& ops) const {
    if (!is_quantized()) return;
    if (is_trained()) return ops.quantize_transposed(with_a(), quantized_.transposed);
    if (f_.rank_total > 0) ops.requantize_transposed(with_a(), f_.out, quantized_.transposed);
  }

  /// Computes Y = X W' + b + U (sB)', plus the addition that `y` describes. Omits b if another rank adds it. Call
  /// quantize_rows before.
  void forward(Ops& ops, Matrix<Element> x, Matrix<Element> u, Product y, bool biased = true) const {
    compress(ops, x, u);
    if (biased) y.bias = bias_;
    y.b_transposed = true;
    if (f_.rank_total > 0 && path_ == AdapterPath::augmented) {
      const auto behind = room_behind(x, f_.rank_total);
      if (behind.data != u.data) ops.copy(u, behind);
      y.a = widened(x, f_.rank_total);
      y.b = with_b();
      if (!is_quantized()) return ops.gemm(y);
    }
    if (is_quantized()) return ops.gemm(quantized_forward(ops, f_.rank_total > 0 ? y.a : x, y));
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

  /// Computes dX = dY W + dU A, and adds it to the previous value if `add`. Call quantize_columns before.
  void input_gradient(Ops& ops, Matrix<Element> dy, Matrix<Element> d_input, bool add = false) const {
    const double beta = add ? 1 : 0;
    if (is_quantized()) return ops.gemm(quantized_input_gradient(ops, widened(dy, f_.rank_total), d_input, add));
    if (f_.rank_total > 0 && path_ == AdapterPath::augmented) {
      return ops.gemm(Product{.d = d_input, .a = widened(dy, f_.rank_total), .b = with_a(), .beta = beta});
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
    if (gradients_.weight) {
      is_quantized() ? ops.gemm(quantized_weight_gradient(ops, dy, x, accumulate)) : product(gradients_.weight, dy);
    }
    if (gradients_.bias != nullptr) ops.sum_rows(own ? own : dy, accumulate, gradients_.bias);
  }

  /// Quantizes the input, and returns the forward product. The columns of U, if any, are part of X.
  QuantizedGemm<Element> quantized_forward(Ops& ops, Matrix<const Element> x, const Product& y) const {
    const auto* const previous = y.c != nullptr ? y.c : y.d.data;
    return {.d = y.d,
            .a = quantized_input(ops, x),
            .b = quantized_.weights,
            .c = y.beta != 0 ? previous : nullptr,
            .bias = y.bias};
  }
  /// Quantizes dY, and returns the product that computes the gradient of the input. The columns of dU, if any, are part
  /// of dY.
  QuantizedGemm<Element> quantized_input_gradient(Ops& ops, Matrix<const Element> dy, Matrix<Element> d_input,
                                                  bool add = false) const {
    return {.d = d_input,
            .a = quantized_input(ops, dy),
            .b = quantized_.transposed,
            .c = add ? d_input.data : nullptr,
            .accumulation = Accumulation::exact};
  }
  /// Quantizes the columns of dY and X, and returns the product that computes the gradient of the trained weights.
  QuantizedGemm<Element, Master> quantized_weight_gradient(Ops& ops, Matrix<const Element> dy, Matrix<const Element> x,
                                                           bool accumulate) const {
    const auto columns = [&ops](Matrix<const Element> m, QuantizedRows to) {
      to.values = {to.values.data, m.cols, m.rows, m.rows};
      ops.quantize_transposed(m, to);
      return to;
    };
    return {.d = gradients_.weight,
            .a = columns(dy, quantized_.input),
            .b = columns(x, quantized_.second),
            .c = accumulate ? gradients_.weight.data : nullptr,
            .accumulation = Accumulation::exact};
  }

  // Locations of its parts.
  Matrix<Element> a() const { return weights_.block(f_.out, 0, f_.rank_total, f_.in); }
  /// Returns s B of one part, a matrix of its rows x rank.
  Matrix<Element> b_of(const Part& part) const {
    return weights_.block(part.row, f_.in + part.u, part.rows, lora_.rank);
  }
  /// Return [W | sB] and [W ; A].
  Matrix<Element> with_a() const { return weights_.block(0, 0, f_.out + f_.rank_total, f_.in); }
  Matrix<Element> with_b() const { return weights_.block(0, 0, f_.out, f_.in + f_.rank_total); }
  const FusedLinear& linear() const { return f_; }
  bool is_trained() const { return static_cast<bool>(gradients_.weight); }

 private:
  bool is_quantized() const { return static_cast<bool>(quantized_.weights.values); }
  QuantizedRows quantized_input(Ops& ops, Matrix<const Element> x) const {
    auto rows = quantized_.input;
    rows.values = {rows.values.data, x.rows, x.cols, x.cols};
    ops.quantize(x, rows);
    return rows;
  }

  const LoraShape& lora_;
  AdapterPath path_;
  const FusedLinear& f_;
  Matrix<Element> weights_;
  const Element* bias_;
  Gradients gradients_;
  Quantized quantized_;
};

}  // namespace shakedown::training
