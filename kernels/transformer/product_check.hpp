// Recomputes sampled rows of a product in f64 on the host, from the operands that the device had.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <type_traits>
#include <vector>

#include "kernels/check.hpp"
#include "kernels/reference.hpp"
#include "kernels/transformer/quantize.hpp"

namespace shakedown::training {

/// Returns the elements of some rows on the device, one row after the other.
template <class Ops, class T>
std::vector<std::remove_const_t<T>> copy_rows_out(Ops& ops, Matrix<T> m, std::size_t row, std::size_t rows) {
  std::vector<std::remove_const_t<T>> raw(rows * m.cols);
  const std::size_t at_once = m.stride == m.cols ? rows : 1;
  for (std::size_t r = 0; r < rows; r += at_once) {
    ops.copy_out(raw.data() + r * m.cols, m.data + (row + r) * m.stride, at_once * m.cols * sizeof(T));
  }
  return raw;
}

template <class Ops, class T>
std::vector<double> read_rows(Ops& ops, Matrix<T> m, std::size_t row, std::size_t rows = 1) {
  const auto raw = copy_rows_out(ops, m, row, rows);
  std::vector<double> values(raw.size());
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if constexpr (std::is_same_v<std::remove_const_t<T>, typename Ops::Element>) {
      values[i] = Ops::to_double(raw[i]);
    } else {
      values[i] = static_cast<double>(raw[i]);
    }
  }
  return values;
}

template <class Ops>
std::vector<double> read_rows(Ops& ops, const QuantizedRows& q, std::size_t row, std::size_t rows = 1) {
  const auto raw = copy_rows_out(ops, q.values, row, rows);
  std::vector<float> scales(rows);
  ops.copy_out(scales.data(), q.scales + row, rows * sizeof(float));
  std::array<double, 256> value_of{};
  for (std::size_t code = 0; code < value_of.size(); ++code) {
    value_of[code] = static_cast<double>(from_float8(static_cast<std::uint8_t>(code), q.type));
  }
  std::vector<double> values(raw.size());
  for (std::size_t i = 0; i < raw.size(); ++i) {
    values[i] = value_of[raw[i]] * static_cast<double>(scales[i / q.values.cols]);
  }
  return values;
}

/// At most four rows of a product.
using SampledRows = std::set<std::size_t>;
/// Returns the first and the last row, and two in between.
inline SampledRows sampled_rows(std::size_t rows) { return {0, rows / 3, rows / 2, rows - 1}; }

/// Compares sampled rows with those that the host quantizes; source(row) returns the values of a row. A factor may be
/// larger than that of its row if it `may_exceed`, because requantize_rows never makes it smaller.
template <class Ops, class Source>
void check_quantized(Ops& ops, Checker& checker, const QuantizedRows& q, const Source& source, bool may_exceed) {
  for (const auto row : sampled_rows(q.values.rows)) {
    const std::vector<double> read = source(row);
    const std::vector<float> values(read.begin(), read.end());
    float scale = 0;
    ops.copy_out(&scale, q.scales + row, sizeof scale);
    const float least = row_scale(detail::largest_size(values.data(), values.size()), q.type);
    const std::size_t place = row * values.size();
    checker.expect_equal(place, scale, may_exceed && scale > least ? scale : least);
    const auto codes = copy_rows_out(ops, q.values, row, 1);
    for (std::size_t c = 0; c < codes.size(); ++c) {
      checker.expect_equal(place + c, int{codes[c]}, int{quantized(values[c], 1 / scale, q.type)});
    }
  }
}

/// Compares sampled rows of D with X W' + residual + bias. `inner` is the number of columns of X and W; a residual or
/// bias that is null is 0. `activation` is applied to the sum; its slope is at most 1.13, that of GELU. The sampled
/// rows are in the innermost loop, because one sum alone would wait for each of its additions.
template <class Ops, class Operand, class Out>
void check_product(Ops& ops, Checker& checker, const Operand& x, const Operand& w, std::size_t inner, Matrix<Out> d,
                   Matrix<const typename Ops::Element> residual, const typename Ops::Element* bias,
                   const ProductErrors& errors, double (*activation)(double) = nullptr) {
  constexpr std::size_t max_sampled_rows = 4, rows_at_once = 256;
  const auto rows = sampled_rows(d.rows);
  const std::size_t outputs = d.cols;
  using Biases = Matrix<const typename Ops::Element>;
  std::vector<double> inputs(inner * max_sampled_rows);
  std::array<double, max_sampled_rows> input_norm{};
  std::vector<std::vector<double>> got, added;
  const auto biases =
      bias == nullptr ? std::vector<double>(outputs) : read_rows(ops, Biases{bias, 1, outputs, outputs}, 0);
  for (std::size_t t = 0; const auto row : rows) {
    const auto input = read_rows(ops, x, row);
    for (std::size_t l = 0; l < inner; ++l) {
      inputs[l * max_sampled_rows + t] = input[l];
      input_norm[t] += input[l] * input[l];
    }
    got.push_back(read_rows(ops, d, row));
    added.push_back(residual ? read_rows(ops, residual, row) : std::vector<double>(outputs));
    for (std::size_t c = 0; c < outputs; ++c) added.back()[c] += biases[c];
    ++t;
  }
  for (std::size_t first = 0; first < outputs; first += rows_at_once) {
    const auto weights = read_rows(ops, w, first, std::min(rows_at_once, outputs - first));
    for (std::size_t output = 0; output * inner < weights.size(); ++output) {
      std::array<double, max_sampled_rows> sums{};
      double norm = 0;
      for (std::size_t l = 0; l < inner; ++l) {
        const double weight = weights[output * inner + l];
        norm += weight * weight;
        for (std::size_t t = 0; t < max_sampled_rows; ++t) sums[t] += inputs[l * max_sampled_rows + t] * weight;
      }
      for (std::size_t t = 0; const auto row : rows) {
        const double want = sums[t] + added[t][first + output];
        const double tolerance =
            reference::gemm_tolerance(errors.u_out, errors.u_acc, want, std::sqrt(input_norm[t]), std::sqrt(norm));
        checker.expect_near(row * outputs + first + output, got[t][first + output],
                            activation == nullptr ? want : activation(want),
                            activation == nullptr ? tolerance : 1.13 * tolerance);
        ++t;
      }
    }
  }
}

}  // namespace shakedown::training
