// The operations of decode on the host, in float or double, as simple loops that are easy to verify.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "base/group.hpp"
#include "kernels/transformer/decode_ops.hpp"
#include "kernels/transformer/decode_spec.hpp"
#include "kernels/transformer/host/training_ops.hpp"

namespace shakedown::host {

template <class T>
class DecodeOps : public HostOps<T> {
 public:
  using Product = training::DecodeProduct<T>;
  using Attention = training::DecodeAttention<T, T>;
  using HostOps<T>::HostOps;

  /// Connects the ranks that share the model.
  void connect(Group& group) { group_ = &group; }

  static std::size_t workspace_bytes(const training::TransformerShape&, const DecodeSpec&) { return 0; }
  void fill_normal(training::Matrix<T> to, double stddev, std::uint64_t tensor, const training::Numbers& numbers) {
    for (std::size_t r = 0; r < to.rows; ++r) {
      HostOps<T>::fill_normal(to.data + r * to.stride, to.cols, stddev, tensor, r * to.cols, numbers);
    }
  }
  void quantize(training::Matrix<const T> x, const training::QuantizedRows& to) {
    training::quantize_rows(x, to.type, to.values, to.scales);
  }
  void embed(training::Matrix<const T> table, const int* tokens, training::Matrix<T> x) {
    this->embedding(table, tokens, {}, 1, x);
  }

  static bool rounds_sums_once() { return true; }
  /// Sums run in double.
  void add_up(training::Matrix<const T> own, training::Matrix<T> all) {
    std::vector<double> values(own.data, own.data + own.rows * own.cols);
    group_->sum(values, values);
    std::transform(values.begin(), values.end(), all.data, [](double value) { return static_cast<T>(value); });
  }
  void gather(training::Matrix<const T> own, training::Matrix<T> all) {
    const std::vector<T> rows(own.data, own.data + own.rows * own.cols);
    group_->all_gather(std::as_bytes(std::span(rows)),
                       std::as_writable_bytes(std::span(all.data, all.rows * all.cols)));
  }

  void project(const Product& p) {
    std::vector<double> y(p.w.rows());
    for (std::size_t r = 0; r < p.d.rows; ++r) {
      auto x = input(p, r);
      if (p.quantized.values) quantize_input(p.quantized, r, x);
      for (std::size_t j = 0; j < y.size(); ++j) y[j] = multiply(p.w, j, x);
      for (std::size_t c = 0; c < p.d.cols; ++c) {
        double value = p.is_gated ? y[c] / (1 + std::exp(-y[c])) * y[p.d.cols + c] : y[c];
        if (p.bias != nullptr) value += static_cast<double>(p.bias[c]);
        if (p.residual != nullptr) value += static_cast<double>(p.residual[r * p.d.stride + c]);
        p.d.data[r * p.d.stride + c] = static_cast<T>(value);
      }
    }
  }

  void attend(const Attention& a) {
    const auto d = a.head_dim, group = a.heads / a.kv_heads;
    for (std::size_t r = 0; r < a.qkv.rows; ++r) {
      const T* const row = a.qkv.data + r * a.qkv.stride;
      for (std::size_t kv = 0; kv < a.kv_heads; ++kv) {
        const auto head = (r * a.kv_heads + kv) * a.capacity * d;
        const auto key = rotated(row + (a.heads + kv) * d, a);
        for (std::size_t i = 0; i < d; ++i) {
          a.keys[head + a.position * d + i] = static_cast<T>(key[i]);
          a.values[head + a.position * d + i] = row[(a.heads + a.kv_heads + kv) * d + i];
        }
        for (std::size_t h = kv * group; h < (kv + 1) * group; ++h) {
          attend_head(rotated(row + h * d, a), a, head, a.out.data + r * a.out.stride + h * d);
        }
      }
    }
  }

 private:
  Group* group_ = nullptr;

  static std::vector<double> input(const Product& p, std::size_t r) {
    std::vector<double> x(p.x.data + r * p.x.stride, p.x.data + r * p.x.stride + p.x.cols);
    if (p.gain == nullptr) return x;
    double squares = 0;
    for (const double value : x) squares += value * value / static_cast<double>(x.size());
    const double factor = 1 / std::sqrt(squares + p.norm_eps);
    for (std::size_t c = 0; c < x.size(); ++c) {
      x[c] = static_cast<double>(static_cast<T>(x[c] * factor * static_cast<double>(p.gain[c])));
    }
    return x;
  }

  /// Quantizes a row, and replaces it by the values of its 8-bit floats.
  static void quantize_input(const training::QuantizedRows& to, std::size_t r, std::vector<double>& x) {
    std::uint8_t* const codes = to.values.data + r * to.values.stride;
    training::quantize_rows<double>({x.data(), 1, x.size(), x.size()}, to.type, {codes, 1, x.size(), x.size()},
                                    to.scales + r);
    for (std::size_t c = 0; c < x.size(); ++c) {
      x[c] = static_cast<double>(from_float8(codes[c], to.type)) * static_cast<double>(to.scales[r]);
    }
  }

  static double multiply(const training::DecodeWeights<T>& w, std::size_t row, const std::vector<double>& x) {
    double sum = 0;
    if (w.plain) {
      const T* const weights = w.plain.data + row * w.plain.stride;
      for (std::size_t l = 0; l < x.size(); ++l) sum += x[l] * static_cast<double>(weights[l]);
      return sum;
    }
    const auto* const codes = w.quantized.values.data + row * w.quantized.values.stride;
    for (std::size_t l = 0; l < x.size(); ++l)
      sum += x[l] * static_cast<double>(from_float8(codes[l], w.quantized.type));
    return sum * static_cast<double>(w.quantized.scales[row]);
  }

  static std::vector<double> rotated(const T* x, const Attention& a) {
    const auto half = a.head_dim / 2;
    std::vector<double> values(a.head_dim);
    for (std::size_t i = 0; i < half; ++i) {
      const auto cosine = static_cast<double>(a.rotation[i]), sine = static_cast<double>(a.rotation[half + i]);
      const auto first = static_cast<double>(x[i]), second = static_cast<double>(x[half + i]);
      values[i] = first * cosine - second * sine;
      values[half + i] = second * cosine + first * sine;
    }
    return values;
  }

  static void attend_head(const std::vector<double>& query, const Attention& a, std::size_t head, T* out) {
    const auto d = a.head_dim, positions = a.position + 1;
    std::vector<double> weights(positions), sums(d);
    double largest = -HUGE_VAL, total = 0;
    for (std::size_t p = 0; p < positions; ++p) {
      for (std::size_t i = 0; i < d; ++i) weights[p] += query[i] * static_cast<double>(a.keys[head + p * d + i]);
      weights[p] /= std::sqrt(static_cast<double>(d));
      largest = std::max(largest, weights[p]);
    }
    for (std::size_t p = 0; p < positions; ++p) {
      const double weight = std::exp(weights[p] - largest);
      total += weight;
      for (std::size_t i = 0; i < d; ++i) sums[i] += weight * static_cast<double>(a.values[head + p * d + i]);
    }
    for (std::size_t i = 0; i < d; ++i) out[i] = static_cast<T>(sums[i] / total);
  }
};

}  // namespace shakedown::host
