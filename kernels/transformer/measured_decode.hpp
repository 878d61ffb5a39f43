// Decode as a Work: one token of each sequence at the last position of the context. The check recomputes the first, the
// middle and the last layer, and the logits, in f64 on the host, operation by operation, each from the inputs that the
// device had.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/statistics.hpp"
#include "kernels/check.hpp"
#include "kernels/device.hpp"
#include "kernels/reference.hpp"
#include "kernels/transformer/decode.hpp"
#include "kernels/transformer/product_check.hpp"

namespace shakedown::training {

template <class Ops>
class MeasuredDecode final : public Work {
  using Element = typename Ops::Element;

 public:
  /// Errors: the backend's exception if there is not enough memory.
  MeasuredDecode(const DecodeSpec& spec, std::unique_ptr<Ops> ops, Device& device)
      : spec_(spec),
        device_(device),
        ops_(std::move(ops)),
        model_(spec, *ops_),
        rotations_(rotation_table<double>(model_.capacity(), model_.shape().head_dim, model_.shape().rope_theta)) {
    model_.fill_cache(position());
  }

  void connect(Group& group) override {
    if (!tune(group, device_.remembered())) tune(group, {});
    ops_->record([this] { model_.step(position()); });
  }

  void enqueue() override { ops_->replay(); }

  void stage(int) override { model_.poison(); }

  void reset() override {
    for (int i = 0; i < warm_ups; ++i) enqueue();
    model_.fill_cache(position());
    model_.poison();
  }

  Check verify() override {
    ops_->synchronize();
    Checker checker;
    for (const auto l : checked_layers()) {
      check_product(checker, model_.qkv_product(l));
      for (const auto sequence : checked_sequences()) check_attention(checker, l, sequence);
      check_product(checker, model_.o_product(l));
      check_product(checker, model_.gate_up_product(l));
      check_product(checker, model_.down_product(l));
    }
    check_product(checker, model_.head_product());
    check_all_logits(checker);
    return checker.result();
  }

  std::optional<std::uint64_t> digest() const override {
    const auto logits = model_.logits();
    return ops_->digest(logits.data, logits.rows * logits.cols * sizeof(Element));
  }

  /// Times tokens, and reads of the memory of the weights, in turns. of_hbm_read is the rate of the bytes that a token
  /// reads, divided by the rate of these reads.
  Metrics metrics() override {
    const auto verified = *digest();
    const auto [memory, bytes] = model_.memory();
    const auto read = std::min(bytes, most_read) / read_granule * read_granule;
    std::vector<double> tokens, reads;
    for (int turn = 0; turn < turns; ++turn) {
      tokens.push_back(ops_->seconds([this] { ops_->replay(); }));
      reads.push_back(ops_->seconds([&, from = memory] { ops_->read(from, read); }));
    }
    const double rate = static_cast<double>(read) / median(reads);
    return {{"checksum", static_cast<double>(verified & ((std::uint64_t{1} << 53) - 1))},
            {"of_hbm_read", cost().bytes / median(tokens) / rate},
            {"hbm_read_gb_per_s", rate / 1e9}};
  }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return model_.memory().second; }
  bool collective() const override { return false; }

  void corrupt() override {
    Element* const place = model_.logits().data + model_.logits().cols / 2;
    Element value;
    ops_->copy_out(&value, place, sizeof value);
    value = Ops::to_element(Ops::to_double(value) + 8);
    ops_->copy_in(place, &value, sizeof value);
  }

 private:
  static constexpr int warm_ups = 3, turns = 5;
  static constexpr std::size_t most_read = std::size_t{8} << 30, read_granule = 16;

  std::size_t position() const { return static_cast<std::size_t>(spec_.context) - 1; }
  std::set<std::size_t> checked_layers() const {
    const auto layers = model_.layers().size();
    return {0, layers / 2, layers - 1};
  }
  std::set<std::size_t> checked_sequences() const { return {0, model_.batch() / 2, model_.batch() - 1}; }

  bool tune(Group& group, const Choices& remembered) {
    ops_->start_tuning(remembered);
    model_.step(position());
    ops_->synchronize();
    return ops_->finish_tuning(group, &device_.choices());
  }

  // Check -------------------------------------------------------------------------------------------------------------

  static double square(double x) { return x * x; }

  std::vector<double> read(const Element* from, std::size_t count) const {
    std::vector<Element> raw(count);
    ops_->copy_out(raw.data(), from, count * sizeof(Element));
    std::vector<double> values(count);
    std::transform(raw.begin(), raw.end(), values.begin(), [](Element e) { return Ops::to_double(e); });
    return values;
  }
  std::vector<double> read_row(const Matrix<Element>& m, std::size_t row) const {
    return read(m.data + row * m.stride, m.cols);
  }
  std::vector<double> read_weights(const DecodeWeights<Element>& w, std::size_t row, std::size_t rows) const {
    return w.plain ? read_rows(*ops_, w.plain, row, rows) : read_rows(*ops_, w.quantized, row, rows);
  }

  /// Returns f(x) of a product for one sequence, rounded as the device rounds it.
  std::vector<double> input_of(const DecodeProduct<Element>& p, std::size_t sequence) const {
    auto x = read_row(p.x, sequence);
    if (p.gain == nullptr) return x;
    const auto gain = read(p.gain, x.size());
    double squares = 0;
    for (const double value : x) squares += square(value) / static_cast<double>(x.size());
    for (std::size_t c = 0; c < x.size(); ++c) {
      x[c] = Ops::to_double(Ops::to_element(x[c] / std::sqrt(squares + p.norm_eps) * gain[c]));
    }
    return x;
  }

  struct Expected {
    double value = 0, tolerance = 0;
  };
  /// Returns the products of a row of X with all rows of W, before any addition.
  std::vector<Expected> multiply(const DecodeProduct<Element>& p, const std::vector<double>& x) const {
    constexpr std::size_t rows_at_once = 64;
    const auto errors = ops_->errors();
    const auto inner = p.w.cols(), rows = p.w.rows();
    double x_norm = 0;
    for (const double value : x) x_norm += square(value);
    std::vector<Expected> expected;
    for (std::size_t first = 0; first < rows; first += rows_at_once) {
      const auto weights = read_weights(p.w, first, std::min(rows_at_once, rows - first));
      for (std::size_t at = 0; at < weights.size(); at += inner) {
        double sum = 0, norm = 0;
        for (std::size_t l = 0; l < inner; ++l) {
          sum += x[l] * weights[at + l];
          norm += square(weights[at + l]);
        }
        expected.push_back(
            {sum, reference::gemm_tolerance(errors.u_out, errors.u_acc, sum, std::sqrt(x_norm), std::sqrt(norm))});
      }
    }
    return expected;
  }

  /// A logit of any sequence that is not finite is a mismatch, because only some sequences are recomputed.
  void check_all_logits(Checker& checker) const {
    const auto logits = model_.head_product().d;
    for (std::size_t sequence = 0; sequence < model_.batch(); ++sequence) {
      const auto row = read_row(logits, sequence);
      const auto finite = std::count_if(row.begin(), row.end(), [](double x) { return std::isfinite(x); });
      checker.expect_equal(sequence, static_cast<std::size_t>(finite), row.size());
    }
  }

  void check_product(Checker& checker, const DecodeProduct<Element>& p) const {
    const double u_out = ops_->errors().u_out;
    for (const auto sequence : checked_sequences()) {
      auto expected = multiply(p, input_of(p, sequence));
      const auto got = read_row(p.d, sequence);
      const auto bias = p.bias == nullptr ? std::vector<double>(got.size()) : read(p.bias, got.size());
      const auto residual = p.residual == nullptr ? bias : read(p.residual + sequence * p.d.stride, got.size());
      for (std::size_t c = 0; c < got.size(); ++c) {
        auto [value, tolerance] = expected[c];
        if (p.is_gated) {
          const auto& up = expected[c + got.size()];
          const double gate = value / (1 + std::exp(-value));
          tolerance = 1.1 * std::abs(up.value) * tolerance + std::abs(gate) * up.tolerance;
          value = gate * up.value;
        }
        value += p.residual != nullptr ? residual[c] : bias[c];
        checker.expect_near(sequence * got.size() + c, got[c], value, tolerance + 2 * u_out * std::abs(value));
      }
    }
  }

  /// Returns a head of the new token, rotated to its position.
  std::vector<double> rotated(const std::vector<double>& qkv, std::size_t head) const {
    const auto d = model_.shape().head_dim;
    const double* const angles = rotations_.data() + position() * d;
    std::vector<double> values(d);
    for (std::size_t i = 0; i < d / 2; ++i) {
      const double a = qkv[head * d + i], b = qkv[head * d + d / 2 + i];
      values[i] = a * angles[i] - b * angles[d / 2 + i];
      values[d / 2 + i] = b * angles[i] + a * angles[d / 2 + i];
    }
    return values;
  }

  /// Checks the new key and value in the cache, and each head of queries with all positions.
  void check_attention(Checker& checker, std::size_t l, std::size_t sequence) const {
    const auto& shape = model_.shape();
    const auto& layer = model_.layers()[l];
    const auto d = shape.head_dim, group = shape.heads / shape.kv_heads, positions = position() + 1;
    const auto qkv = read_row(layer.projected, sequence), got = read_row(layer.attended, sequence);
    for (std::size_t kv = 0; kv < shape.kv_heads; ++kv) {
      const auto at = (sequence * shape.kv_heads + kv) * model_.capacity() * d;
      const auto keys = read(layer.keys + at, positions * d), values = read(layer.values + at, positions * d);
      const auto key = rotated(qkv, shape.heads + kv);
      for (std::size_t i = 0; i < d; ++i) {
        checker.expect_near(i, keys[position() * d + i], key[i], 1e-5 + 2 * ops_->errors().u_out * std::abs(key[i]));
        checker.expect_equal(i, values[position() * d + i], qkv[(shape.heads + shape.kv_heads + kv) * d + i]);
      }
      for (std::size_t head = kv * group; head < (kv + 1) * group; ++head) {
        check_head(checker, rotated(qkv, head), keys, values, got.data() + head * d);
      }
    }
  }

  void check_head(Checker& checker, const std::vector<double>& query, const std::vector<double>& keys,
                  const std::vector<double>& values, const double* got) const {
    const auto d = query.size(), positions = keys.size() / d;
    std::vector<double> weights(positions), want(d);
    double largest = -HUGE_VAL, sum = 0, error = 0, norm = 0;
    for (std::size_t p = 0; p < positions; ++p) {
      for (std::size_t c = 0; c < d; ++c) weights[p] += query[c] * keys[p * d + c] / std::sqrt(static_cast<double>(d));
      largest = std::max(largest, weights[p]);
    }
    for (std::size_t p = 0; p < positions; ++p) {
      const double weight = std::exp(weights[p] - largest);
      sum += weight;
      for (std::size_t c = 0; c < d; ++c) want[c] += weight * values[p * d + c];
    }
    for (std::size_t c = 0; c < d; ++c) {
      error += square(got[c] - want[c] / sum);
      norm += square(want[c] / sum);
    }
    checker.expect_near(0, std::sqrt(error), 0, ops_->errors().attention * std::sqrt(norm));
  }

  DecodeSpec spec_;
  Device& device_;
  std::unique_ptr<Ops> ops_;
  Decoder<Ops> model_;
  std::vector<double> rotations_;
};

}  // namespace shakedown::training
