// The forward pass of a layer as a Work. The host and the GPU run the same code with their own operations. The check
// recomputes some tokens in f64 on the host, operation by operation, each from the inputs that the device had.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/check.hpp"
#include "kernels/device.hpp"
#include "kernels/transformer/arena.hpp"
#include "kernels/transformer/layer_spec.hpp"
#include "kernels/transformer/product_check.hpp"

namespace shakedown::training {

/// Unit roundoffs of a stored result and of the accumulation (reference::gemm_tolerance), and the relative error of
/// attention.
struct LayerErrors {
  double u_out, u_acc, attention;
};

template <class Ops>
class MeasuredLayer final : public Work {
  using Element = typename Ops::Element;
  using Master = typename Ops::Master;

 public:
  /// Allocates all memory. Errors: the backend's exception if there is not enough memory.
  MeasuredLayer(const LayerSpec& spec, std::unique_ptr<Ops> ops, Device& device)
      : spec_(spec),
        shape_(layer_shape(spec)),
        tokens_(static_cast<std::size_t>(spec.batch) * static_cast<std::size_t>(spec.seq)),
        device_(device),
        ops_(std::move(ops)),
        memory_(ops_->allocate(planned_bytes())) {
    Arena arena(memory_.data());
    place(arena);
    write_inputs();
  }

  void connect(Group& group) override {
    if (!tune(group, device_.remembered())) tune(group, {});
    write_inputs();  // because tuning overwrites results
  }

  void enqueue() override {
    run([](Part, const auto& queue) { queue(); });
  }

  void stage(int) override {
    ops_->set_bytes(out_.data, 0xff, bytes_of(out_));
    ops_->synchronize();
  }

  void poison_input() override {
    // The last token of the first sequence is not sampled, and a causal mask hides it from all others.
    const auto nan = Ops::to_element(std::numeric_limits<double>::quiet_NaN());
    ops_->copy_in(x_.data + static_cast<std::size_t>(spec_.seq - 1) * x_.stride, &nan, sizeof nan);
  }

  /// Brings the device to its power limit before the results are poisoned.
  void reset() override {
    for (int i = 0; i < warm_ups; ++i) enqueue();
    for (const auto& m : {qkv_, attended_, middle_, u_, out_}) ops_->set_bytes(m.data, 0xff, bytes_of(m));
    for (const auto& p : projections_) {
      if (p.input) ops_->set_bytes(p.input.data, 0xff, bytes_of(p.input));
      if (!is_quantized()) continue;
      ops_->set_bytes(p.rows.values.data, float8_nan, p.rows.values.rows * p.rows.values.stride);
      ops_->set_bytes(p.rows.scales, 0xff, p.rows.values.rows * sizeof(float));
    }
    ops_->synchronize();
  }

  Check verify() override {
    ops_->synchronize();
    Checker checker;
    for (const auto t : sampled_tokens()) {
      check_norm(checker, t, x_, norms_[0], projections_[0]);
      check_attention(checker, t);
      check_norm(checker, t, middle_, norms_[1], projections_[2]);
      if (is_quantized()) check_gelu(checker, t);
    }
    for (const auto& projection : projections_) check_projection(checker, projection);
    check_finite(checker);
    return checker.result();
  }

  std::optional<std::uint64_t> digest() const override {
    return bytes_of(out_) > max_digested_bytes ? std::nullopt : std::optional(ops_->digest(out_.data, bytes_of(out_)));
  }
  bool runs_in_connect() const override { return false; }

  /// The checksum covers the whole output; the digest of a series does not if it is larger than most_digested. The
  /// times are of more passes, which wait after each operation.
  Metrics metrics() override {
    std::uint64_t sum = 0;
    const auto* const begin = reinterpret_cast<const std::byte*>(out_.data);
    for (std::size_t at = 0; at < bytes_of(out_); at += max_digested_bytes) {
      sum += reference::mix(at ^ ops_->digest(begin + at, std::min(max_digested_bytes, bytes_of(out_) - at)));
    }
    const auto [gemm, attention, pointwise] = part_milliseconds();
    return {{"checksum", static_cast<double>(sum & ((std::uint64_t{1} << 53) - 1))},
            {"gemm_ms", gemm},
            {"attention_ms", attention},
            {"pointwise_ms", pointwise}};
  }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return footprint(spec_); }
  bool collective() const override { return false; }
  std::string chosen() const override { return "attention " + ops_->attention_name(); }

  void corrupt() override {
    Element* const place = out_.data + *sampled_tokens().rbegin() * out_.stride + out_.cols / 2;
    Element value;
    ops_->copy_out(&value, place, sizeof value);
    value = Ops::to_element(Ops::to_double(value) + 8);
    ops_->copy_in(place, &value, sizeof value);
  }

 private:
  static constexpr int warm_ups = 3;

  struct NormOfRows {
    NormWeights<Element> weights;
    NormStatistics<Master> statistics;
  };

  /// output = input weights' + residual. Either `input` and `weights` are used, or the quantized ones.
  struct Projected {
    Matrix<Element> input, weights, output;
    QuantizedRows rows, quantized_weights;
    Matrix<Element> residual = {};
    bool gelu = false;  // GELU of the sum
  };

  /// Kinds of operations, whose times are reported separately.
  enum class Part { gemm, attention, pointwise };
  static constexpr std::size_t parts = 3;

  /// Calls `around` with each operation of a pass, in their order.
  template <class Around>
  void run(const Around& around) {
    const auto product = [&](std::size_t i) { around(Part::gemm, [&] { project(projections_[i]); }); };
    around(Part::pointwise, [&] { normalize(x_, norms_[0], projections_[0]); });
    product(0);
    around(Part::attention, [&] { ops_->attention(qkv_, attended_, lse_, attention_shape()); });
    if (is_quantized()) around(Part::pointwise, [&] { ops_->quantize(attended_, projections_[1].rows); });
    product(1);
    around(Part::pointwise, [&] { normalize(middle_, norms_[1], projections_[2]); });
    product(2);
    if (is_quantized()) around(Part::pointwise, [&] { ops_->quantize_gelu(u_, projections_[3].rows); });
    product(3);
  }

  std::array<double, parts> part_milliseconds() {
    using Clock = std::chrono::steady_clock;
    constexpr int passes = 3;
    std::array<double, parts> milliseconds{};
    for (int i = 0; i < warm_ups; ++i) enqueue();
    ops_->synchronize();
    auto last = Clock::now();
    for (int i = 0; i < passes; ++i) {
      run([&](Part part, const auto& queue) {
        queue();
        ops_->synchronize();
        const auto now = Clock::now();
        milliseconds[static_cast<std::size_t>(part)] +=
            std::chrono::duration<double, std::milli>(now - std::exchange(last, now)).count() / passes;
      });
    }
    return milliseconds;
  }

  bool is_quantized() const { return spec_.dtype == DType::fp8_e4m3; }
  training::AttentionShape attention_shape() const {
    return {static_cast<std::size_t>(spec_.batch),
            static_cast<std::size_t>(spec_.seq),
            shape_.heads,
            shape_.kv_heads,
            shape_.head_dim,
            shape_.causal};
  }
  static std::size_t bytes_of(const Matrix<Element>& m) { return m.rows * m.stride * sizeof(Element); }

  std::size_t planned_bytes() {
    Arena counted;
    place(counted);
    return counted.bytes();
  }

  void place(Arena& arena) {
    ops_->use_workspace(arena.take<std::byte>("workspace", ops_->workspace_bytes()));
    const auto matrix = [&](const char* what, std::size_t rows, std::size_t cols) {
      return Matrix<Element>{arena.take<Element>(what, rows * cols), rows, cols, cols};
    };
    const auto quantized = [&](const char* what, std::size_t rows, std::size_t cols) {
      if (!is_quantized()) return QuantizedRows{};
      return QuantizedRows{{arena.take<std::uint8_t>(what, rows * cols), rows, cols, cols},
                           arena.take<float>("scales", rows)};
    };
    const auto h = shape_.hidden, wide = shape_.intermediate;
    x_ = matrix("x", tokens_, h);
    qkv_ = matrix("qkv", tokens_, 3 * h);
    attended_ = matrix("attended", tokens_, h);
    middle_ = matrix("middle", tokens_, h);
    u_ = matrix("u", tokens_, wide);
    out_ = matrix("out", tokens_, h);
    summary_ = arena.take<Summary>("summary", 1);
    lse_ = arena.take<Master>("lse", tokens_ * shape_.heads);
    for (auto& norm : norms_) {
      norm.weights = {arena.take<Element>("gain", h), arena.take<Element>("shift", h)};
      norm.statistics = {arena.take<Master>("mean", tokens_), arena.take<Master>("rstd", tokens_)};
    }
    const std::array<Matrix<Element>, 4> outputs{qkv_, middle_, u_, out_}, residuals{{{}, x_, {}, middle_}};
    const std::array<std::size_t, 4> inputs{h, h, h, wide};
    for (std::size_t i = 0; i < projections_.size(); ++i) {
      auto& p = projections_[i];
      p.weights = matrix("weights", outputs[i].cols, inputs[i]);
      p.quantized_weights = quantized("quantized weights", outputs[i].cols, inputs[i]);
      p.rows = quantized("quantized input", tokens_, inputs[i]);
      p.input = input_of_projection(i, [&] { return matrix("input", tokens_, inputs[i]); });
      p.gelu = i == 2 && !is_quantized();
      p.output = outputs[i];
      p.residual = residuals[i];
    }
  }

  template <class Take>
  Matrix<Element> input_of_projection(std::size_t i, const Take& take) const {
    if (i == 1) return attended_;
    if (is_quantized()) return {};
    return i == 3 ? u_ : take();
  }

  void write_inputs() {
    std::uint64_t tensor = 0;
    ops_->fill_normal(x_, 1, ++tensor);
    for (auto& p : projections_) {
      ops_->fill_normal(p.weights, 1 / std::sqrt(static_cast<double>(p.weights.cols)), ++tensor);
      if (is_quantized()) ops_->quantize(p.weights, p.quantized_weights);
    }
    const std::vector<Element> ones(shape_.hidden, Ops::to_element(1));
    for (auto& norm : norms_) {
      ops_->copy_in(norm.weights.gain, ones.data(), ones.size() * sizeof(Element));
      ops_->fill_normal({norm.weights.shift, 1, shape_.hidden, shape_.hidden}, 0.1, ++tensor);
    }
    ops_->synchronize();
  }

  bool tune(Group& group, const Choices& remembered) {
    ops_->start_tuning(remembered, tuning_share(group, device_.info().name));
    enqueue();
    ops_->synchronize();
    return ops_->finish_tuning(group, &device_.choices(), &device_.tilings());
  }

  void normalize(const Matrix<Element>& x, const NormOfRows& norm, const Projected& to) {
    if (is_quantized()) {
      ops_->quantize_norm(x, norm.weights, shape_.norm_eps, norm.statistics, to.rows);
    } else {
      ops_->norm(x, norm.weights, shape_.norm_eps, to.input, norm.statistics);
    }
  }

  void project(const Projected& p) {
    if (is_quantized()) {
      return ops_->gemm(QuantizedGemm<Element>{p.output, p.rows, p.quantized_weights, p.residual.data});
    }
    ops_->gemm(Gemm<Element, Element>{.d = p.output,
                                      .a = p.input,
                                      .b = p.weights,
                                      .b_transposed = true,
                                      .beta = p.residual ? 1.0 : 0.0,
                                      .c = p.residual.data,
                                      .gelu = p.gelu});
  }

  // Check -------------------------------------------------------------------------------------------------------------

  SampledRows sampled_tokens() const { return sampled_rows(tokens_); }

  std::vector<double> read(Matrix<const Element> m, std::size_t row, std::size_t rows = 1) const {
    return read_rows(*ops_, m, row, rows);
  }
  std::vector<double> input_of(const Projected& p, std::size_t token) const {
    return is_quantized() ? read_rows(*ops_, p.rows, token) : read(p.input, token);
  }
  /// Compares the input of a product with what it must be, rounded to its type.
  void expect_input(Checker& checker, const Projected& p, std::size_t token, const std::vector<double>& want) const {
    const auto got = input_of(p, token);
    double largest = 0;
    for (const double value : want) largest = std::max(largest, std::abs(value));
    // Half of the distance of neighbours in e4m3: 2^-4 of a normal number, 2^-10 of the factor of a subnormal one.
    const double relative = 2 * ops_->errors().u_out + (is_quantized() ? 0x1p-4 : 0);
    const double absolute = 1e-5 + (is_quantized() ? largest / 448 * 0x1p-9 : 0);
    for (std::size_t c = 0; c < want.size(); ++c) {
      checker.expect_near(token * want.size() + c, got[c], want[c], relative * std::abs(want[c]) + absolute);
    }
  }

  void check_norm(Checker& checker, std::size_t token, const Matrix<Element>& from, const NormOfRows& norm,
                  const Projected& to) const {
    auto x = read(from, token);
    const auto count = static_cast<double>(x.size());
    const auto gain = read({norm.weights.gain, 1, x.size(), x.size()}, 0);
    const auto shift = read({norm.weights.shift, 1, x.size(), x.size()}, 0);
    double mean = 0, squares = 0;
    for (const double value : x) mean += value / count;
    for (const double value : x) squares += (value - mean) * (value - mean) / count;
    for (std::size_t c = 0; c < x.size(); ++c) {
      x[c] = (x[c] - mean) / std::sqrt(squares + shape_.norm_eps) * gain[c] + shift[c];
    }
    expect_input(checker, to, token, x);
  }

  void check_gelu(Checker& checker, std::size_t token) const {
    auto u = read(u_, token);
    std::transform(u.begin(), u.end(), u.begin(), gelu);
    expect_input(checker, projections_[3], token, u);
  }

  /// Compares each head with the softmax of its scores.
  void check_attention(Checker& checker, std::size_t token) const {
    const auto seq = static_cast<std::size_t>(spec_.seq), size = shape_.head_dim, width = qkv_.cols;
    const std::size_t keys = shape_.causal ? token % seq + 1 : seq;
    const auto qkv = read(qkv_, token / seq * seq, std::max(keys, token % seq + 1)), got = read(attended_, token);
    const double* const query = qkv.data() + token % seq * width;
    for (std::size_t head = 0; head < shape_.heads; ++head) {
      const std::size_t at = head * size;
      std::vector<double> weights(keys), want(size);
      double largest = -HUGE_VAL, sum = 0, error = 0, norm = 0;
      for (std::size_t key = 0; key < keys; ++key) {
        const double* const k = qkv.data() + key * width + shape_.hidden + at;
        for (std::size_t c = 0; c < size; ++c)
          weights[key] += query[at + c] * k[c] / std::sqrt(static_cast<double>(size));
        largest = std::max(largest, weights[key]);
      }
      for (std::size_t key = 0; key < keys; ++key) {
        const double weight = std::exp(weights[key] - largest);
        const double* const v = qkv.data() + key * width + 2 * shape_.hidden + at;
        sum += weight;
        for (std::size_t c = 0; c < size; ++c) want[c] += weight * v[c];
      }
      for (std::size_t c = 0; c < size; ++c) {
        error += square(got[at + c] - want[c] / sum);
        norm += square(want[c] / sum);
      }
      checker.expect_near(token * shape_.heads + head, std::sqrt(error), 0, ops_->errors().attention * std::sqrt(norm));
    }
  }

  void check_projection(Checker& checker, const Projected& p) const {
    const auto [u_out, u_acc, of_attention] = ops_->errors();
    const auto check = [&](const auto& input, const auto& weights) {
      check_product(*ops_, checker, input, weights, p.weights.cols, Matrix<const Element>(p.output),
                    Matrix<const Element>(p.residual), static_cast<const Element*>(nullptr),
                    ProductErrors{u_out, u_acc}, p.gelu ? &gelu : nullptr);
    };
    is_quantized() ? check(p.rows, p.quantized_weights)
                   : check(Matrix<const Element>(p.input), Matrix<const Element>(p.weights));
  }

  /// A value that is not finite, in any row, is a mismatch.
  void check_finite(Checker& checker) const {
    ops_->set_bytes(summary_, 0, sizeof(Summary));
    ops_->summarize(out_.data, 0, out_.rows * out_.cols, summary_);
    Summary summary;
    ops_->copy_out(&summary, summary_, sizeof summary);
    checker.expect_equal(out_.rows * out_.cols, summary.non_finite, std::uint64_t{0});
  }

  static double gelu(double x) { return 0.5 * x * (1 + std::tanh(0.79788456080286536 * (x + 0.044715 * x * x * x))); }
  static double square(double x) { return x * x; }

  LayerSpec spec_;
  TransformerShape shape_;
  std::size_t tokens_;
  Device& device_;
  std::unique_ptr<Ops> ops_;
  Matrix<Element> x_, qkv_, attended_, middle_, out_;
  Matrix<Element> u_;  // input of GELU; its result if that is part of the product
  Master* lse_ = nullptr;
  Summary* summary_ = nullptr;
  std::array<NormOfRows, 2> norms_;
  std::array<Projected, 4> projections_;  // queries, keys and values; attention output; up; down
  decltype(std::declval<Ops>().allocate(0)) memory_;
};

}  // namespace shakedown::training
