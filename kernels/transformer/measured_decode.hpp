// Decode as a Work: one token of each sequence at the last position of the context. The check recomputes the embedding,
// the first, the middle and the last layer, and the logits, in f64 on the host, operation by operation, each from the
// inputs that the device had. If ranks share the model, each rank checks its summands, and that each sum is the sum of
// the summands of all ranks.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
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
  /// Connects the operations of the ranks that share a model. Collective.
  using Connect = std::function<void(Ops&, Group&)>;
  /// Errors: the backend's exception if there is not enough memory.
  MeasuredDecode(const DecodeSpec& spec, std::unique_ptr<Ops> ops, Device& device, Connect connect)
      : spec_(spec),
        device_(device),
        ops_(std::move(ops)),
        connect_(std::move(connect)),
        model_(spec, *ops_),
        rotations_(rotation_table<double>(model_.capacity(), model_.shape().head_dim, model_.shape().rope_theta)) {
    model_.fill_cache(position());
  }

  void connect(Group& group) override {
    if (collective()) {
      if (group.size() != spec_.tp || group.rank() != spec_.rank) {
        throw std::logic_error("decode prepared for another number of ranks, or another rank");
      }
      group_ = &group;
      connect_(*ops_, group);
    }
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
    check_embedding(checker);
    check_sum(checker, model_.embedded(), false);
    for (const auto l : checked_layers()) {
      const auto& layer = model_.layers()[l];
      check_product(checker, model_.qkv_product(l));
      for (const auto sequence : checked_sequences()) check_attention(checker, l, sequence);
      check_product(checker, model_.o_product(l));
      check_sum(checker, layer.middle, true);
      check_product(checker, model_.gate_up_product(l));
      check_product(checker, model_.down_product(l));
      check_sum(checker, layer.out, true);
    }
    check_product(checker, model_.head_product());
    check_all_logits(checker);
    return checker.result();
  }

  /// Returns the digest of all logits and of the input of the head. Both have the same bits on all ranks.
  std::optional<std::uint64_t> digest() const override {
    const auto of = [&](const Matrix<Element>& m) { return ops_->digest(m.data, m.rows * m.cols * sizeof(Element)); };
    return of(model_.all_logits()) ^ reference::mix(of(model_.input(model_.layers().size())));
  }

  /// Times tokens, and reads of the memory of the weights, in turns. of_hbm_read is the rate of the bytes that a token
  /// reads, divided by the rate of these reads; NaN, which no row may have, if a token has other bits than the one that
  /// was checked.
  Metrics metrics() override {
    if (collective()) group_->barrier();  // after checks of different length on the ranks
    const auto verified = *digest();
    const auto [memory, bytes] = model_.memory();
    const auto read = std::min(bytes, max_read_bytes) / read_granule * read_granule;
    std::vector<double> tokens, reads;
    for (int turn = 0; turn < turns; ++turn) {
      tokens.push_back(ops_->seconds([this] { ops_->replay(); }));
      reads.push_back(ops_->seconds([&, from = memory] { ops_->read(from, read); }));
    }
    const double rate = static_cast<double>(read) / median(reads);
    const double of_read =
        digest() == verified ? cost().bytes / median(tokens) / rate : std::numeric_limits<double>::quiet_NaN();
    return {{"checksum", static_cast<double>(verified & ((std::uint64_t{1} << 53) - 1))},
            {"of_hbm_read", of_read},
            {"hbm_read_gb_per_s", rate / 1e9}};
  }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return model_.memory().second; }
  bool collective() const override { return spec_.tp > 1; }

  void corrupt() override {
    Element* const place = model_.logits().data + model_.logits().cols / 2;
    Element value;
    ops_->copy_out(&value, place, sizeof value);
    value = Ops::to_element(Ops::to_double(value) + 8);
    ops_->copy_in(place, &value, sizeof value);
  }

 private:
  static constexpr int warm_ups = 3, turns = 5;
  static constexpr std::size_t max_read_bytes = std::size_t{8} << 30, read_granule = 16;

  std::size_t position() const { return static_cast<std::size_t>(spec_.context) - 1; }
  std::set<std::size_t> checked_layers() const {
    const auto layers = model_.layers().size();
    return {0, layers / 2, layers - 1};
  }
  std::set<std::size_t> checked_sequences() const { return {0, model_.batch() / 2, model_.batch() - 1}; }

  bool tune(Group& group, const Choices& remembered) {
    ops_->start_tuning(remembered, tuning_share(group, device_.info().name));
    model_.step(position());
    ops_->synchronize();
    return ops_->finish_tuning(group, &device_.choices(), &device_.tilings());
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

  static double rounded(double value) { return Ops::to_double(Ops::to_element(value)); }

  /// f(x) of a product for one sequence, rounded as the device rounds it. `doubt` is the distance of the two neighbours
  /// to which the device may round a value, because its norm is not exact; mostly 0.
  struct Input {
    std::vector<double> values, doubt;
  };
  Input input_of(const DecodeProduct<Element>& p, std::size_t sequence) const {
    Input x{read_row(p.x, sequence), std::vector<double>(p.x.cols)};
    if (p.gain == nullptr) return x;
    const auto gain = read(p.gain, x.values.size());
    const double error = ops_->errors().u_acc;
    double squares = 0;
    for (const double value : x.values) squares += square(value) / static_cast<double>(x.values.size());
    for (std::size_t c = 0; c < x.values.size(); ++c) {
      const double exact = x.values[c] / std::sqrt(squares + p.norm_eps) * gain[c];
      x.values[c] = rounded(exact);
      x.doubt[c] = std::abs(rounded(exact * (1 + error)) - rounded(exact * (1 - error)));
    }
    return x;
  }

  /// Compares the row of 8-bit floats that the device multiplied with f(x), and returns its values. Rounding to 3 bits
  /// of fraction has a relative error of 2^-4, or an absolute one of 2^-10 factors.
  Input check_quantized(Checker& checker, const DecodeProduct<Element>& p, std::size_t sequence, const Input& x) const {
    Input input{read_rows(*ops_, p.quantized, sequence), std::vector<double>(x.values.size())};
    float factor = 0;
    ops_->copy_out(&factor, p.quantized.scales + sequence, sizeof factor);
    for (std::size_t c = 0; c < x.values.size(); ++c) {
      checker.expect_near(c, input.values[c], x.values[c],
                          1.01 * 0x1p-4 * std::abs(x.values[c]) + 0x1p-10 * static_cast<double>(factor) + x.doubt[c]);
    }
    return input;
  }

  struct Expected {
    double value = 0, tolerance = 0;
  };
  /// Returns the products of a row of X with all rows of W, before any addition.
  std::vector<Expected> multiply(const DecodeProduct<Element>& p, const Input& x) const {
    constexpr std::size_t rows_at_once = 64;
    const auto inner = p.w.cols(), rows = p.w.rows();
    auto errors = ProductErrors{ops_->errors().u_out, ops_->errors().u_acc};
    if (p.quantized.values) errors = ops_->quantized_errors(inner, Accumulation::fast);
    double x_norm = 0;
    for (const double value : x.values) x_norm += square(value);
    std::vector<Expected> expected;
    for (std::size_t first = 0; first < rows; first += rows_at_once) {
      const auto weights = read_weights(p.w, first, std::min(rows_at_once, rows - first));
      for (std::size_t at = 0; at < weights.size(); at += inner) {
        double sum = 0, norm = 0, doubt = 0;
        for (std::size_t l = 0; l < inner; ++l) {
          sum += x.values[l] * weights[at + l];
          norm += square(weights[at + l]);
          doubt += x.doubt[l] * std::abs(weights[at + l]);
        }
        expected.push_back({sum, doubt + reference::gemm_tolerance(errors.u_out, errors.u_acc, sum, std::sqrt(x_norm),
                                                                   std::sqrt(norm))});
      }
    }
    return expected;
  }

  /// A logit of any sequence that is not finite is a mismatch, because only some sequences are recomputed.
  void check_all_logits(Checker& checker) const {
    const auto logits = model_.all_logits();
    for (std::size_t r = 0; r < logits.rows; ++r) {
      const auto row = read_row(logits, r);
      const auto finite = std::count_if(row.begin(), row.end(), [](double x) { return std::isfinite(x); });
      checker.expect_equal(r, static_cast<std::size_t>(finite), row.size());
    }
  }

  /// Compares the embedding with the rows of the tokens: zeros for tokens whose rows another rank has.
  void check_embedding(Checker& checker) const {
    for (const auto sequence : checked_sequences()) {
      const auto got = read_row(model_.embedded().own, sequence);
      const int row = model_.own_rows()[sequence];
      const auto want =
          row < 0 ? std::vector<double>(got.size()) : read_row(model_.embedding(), static_cast<std::size_t>(row));
      for (std::size_t c = 0; c < got.size(); ++c) checker.expect_equal(c, got[c], want[c]);
    }
  }

  /// Compares a sum with the summands of all ranks. If `rounds`, the sum is rounded to Element, once or after each
  /// addition; else it is exact. Collective.
  void check_sum(Checker& checker, const typename Decoder<Ops>::Sum& sum, bool rounds) const {
    if (!collective()) return;
    const auto errors = ops_->errors();
    const auto tolerance = [&](double exact, double size) {
      if (!rounds) return 0.0;
      if (ops_->rounds_sums_once()) return errors.u_element * std::abs(exact) + errors.u_acc * size;
      return reference::sum_tolerance(spec_.tp, errors.u_element, size);
    };
    for (const auto sequence : checked_sequences()) {
      const auto got = read_row(sum.all, sequence);
      auto want = read_row(sum.own, sequence);
      auto sizes = want;
      for (double& size : sizes) size = std::abs(size);
      group_->sum(want, want);
      group_->sum(sizes, sizes);
      for (std::size_t c = 0; c < got.size(); ++c) {
        checker.expect_near(c, got[c], want[c], tolerance(want[c], sizes[c]));
      }
    }
  }

  void check_product(Checker& checker, const DecodeProduct<Element>& p) const {
    const double u_out = ops_->errors().u_out;
    for (const auto sequence : checked_sequences()) {
      auto input = input_of(p, sequence);
      if (p.quantized.values) input = check_quantized(checker, p, sequence, input);
      auto expected = multiply(p, input);
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
  Connect connect_;
  Group* group_ = nullptr;
  Decoder<Ops> model_;
  std::vector<double> rotations_;
};

}  // namespace shakedown::training
