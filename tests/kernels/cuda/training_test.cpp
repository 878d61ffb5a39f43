// The operations of a training step on the GPU, each against the formula or the host in f64 on the same bf16 inputs.
// Outputs and the room between rows are poisoned before: what is not written, or written beside a row, is seen. A bf16
// output may differ by the rounding (relative norm 4e-3, of attention 1e-2), an f32 output by 1e-5.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/cuda/training/attention.hpp"
#include "kernels/cuda/training/kernels.hpp"
#include "kernels/cuda/training/products.hpp"
#include "kernels/host/training_ops.hpp"
#include "kernels/reference.hpp"
#include "tests/kernels/cuda/on_gpu.hpp"

namespace shakedown::cuda {
namespace {

constexpr double rounding = 4e-3, attention_rounding = 1e-2, f32_rounding = 1e-5;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

double rounded(double value) { return __bfloat162float(__double2bfloat16(value)); }

/// A strided matrix on the GPU, and its elements in f64 on the host. `room` columns behind each row belong to others.
template <class T>
class Device {
 public:
  Device(const Gpu& gpu, std::size_t rows, std::size_t cols, std::size_t room = 0)
      : gpu_(gpu), rows_(rows), cols_(cols), stride_(cols + room), buffer_(rows * stride_ * sizeof(T)) {
    gpu_.fill(buffer_, 0xff);
  }

  /// Normal numbers, rounded to the type.
  Device& normal(std::uint64_t stream, double deviation = 1) {
    std::vector<double> values(rows_ * cols_);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = deviation * reference::normal(i, stream);
    return write(values);
  }

  Device& write(const std::vector<double>& values) {
    auto raw = download();
    for (std::size_t i = 0; i < values.size(); ++i) raw[i / cols_ * stride_ + i % cols_] = to(values[i]);
    gpu_.write(buffer_.data(), raw.data(), buffer_.bytes());
    return *this;
  }

  /// The elements; a failure if the room between rows was touched.
  std::vector<double> read() const {
    const auto raw = download();
    std::vector<double> values;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      if (i % stride_ < cols_) {
        values.push_back(from(raw[i]));
      } else if (!std::isnan(from(raw[i]))) {
        ADD_FAILURE() << "something was written behind row " << i / stride_;
        break;
      }
    }
    return values;
  }
  std::vector<T> bits() const { return download(); }

  Matrix<T> matrix() const { return {buffer_.data<T>(), rows_, cols_, stride_}; }
  operator Matrix<T>() const { return matrix(); }
  operator Matrix<const T>() const { return matrix(); }
  T* data() const { return buffer_.data<T>(); }

 private:
  static T to(double value) {
    if constexpr (std::is_same_v<T, Bf16>)
      return __double2bfloat16(value);
    else
      return static_cast<T>(value);
  }
  static double from(T value) {
    if constexpr (std::is_same_v<T, Bf16>)
      return __bfloat162float(value);
    else
      return static_cast<double>(value);
  }
  std::vector<T> download() const {
    std::vector<T> raw(rows_ * stride_);
    gpu_.read(raw.data(), buffer_.data(), raw.size() * sizeof(T));
    return raw;
  }

  const Gpu& gpu_;
  std::size_t rows_, cols_, stride_;
  Buffer buffer_;
};

/// |got - want| / |want|, and no single element far off.
::testing::AssertionResult close(const std::vector<double>& got, const std::vector<double>& want, double relative) {
  if (got.size() != want.size()) return ::testing::AssertionFailure() << got.size() << " of " << want.size();
  double error = 0, size = 0, worst = 0;
  std::size_t where = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(got[i] - want[i]);
    if (!(difference <= worst)) worst = difference, where = i;
    error += difference * difference;
    size += want[i] * want[i];
  }
  error = std::sqrt(error), size = std::sqrt(size);
  const double largest_one = 20 * relative * size / std::sqrt(static_cast<double>(want.size()));
  const double own = std::isfinite(want[where]) ? 4 * relative * std::abs(want[where]) : 0;
  if (error <= relative * size && worst <= std::max(largest_one, own)) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "relative error " << error / size << ", element " << where << " is "
                                       << got[where] << ", expected " << want[where];
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

class CudaTraining : public OnGpu {
 protected:
  using M = Device<Bf16>;
  using F = Device<float>;

  M bf16(std::size_t rows, std::size_t cols, std::size_t room = 0) const { return {*gpu_, rows, cols, room}; }
  F f32(std::size_t rows, std::size_t cols = 1, std::size_t room = 0) const { return {*gpu_, rows, cols, room}; }
  cudaStream_t stream() const { return gpu_->stream(); }
};

// Norms --------------------------------------------------------------------------------------------------------------

/// The operations of the host in f64, on values as `read` gives them: rows without room.
class OnHost {
 public:
  using Values = std::vector<double>;

  static Matrix<double> matrix(Values& values, std::size_t rows) {
    return {values.data(), rows, values.size() / rows, values.size() / rows};
  }
  host::HostOps<double>* operator->() { return &ops_; }

 private:
  host::Team team_{2};
  host::HostOps<double> ops_{team_};
};

/// RMSNorm, or LayerNorm.
class CudaNorms : public CudaTraining, public ::testing::WithParamInterface<bool> {
 protected:
  static bool layer() { return GetParam(); }
  static NormWeights weights(const M& gain, const M& shift) { return {gain.data(), layer() ? shift.data() : nullptr}; }
  static NormStatistics statistics(const F& mean, const F& rstd) {
    return {layer() ? mean.data() : nullptr, rstd.data()};
  }
  static training::NormStatistics<double> on_host(std::vector<double>& mean, std::vector<double>& rstd) {
    return {layer() ? mean.data() : nullptr, rstd.data()};
  }
  OnHost host_;
};

TEST_P(CudaNorms, AreTheHosts) {
  for (const auto& [rows, cols] : {std::pair{37U, 3584U}, {5U, 64U}, {3U, 8U}, {2U, 10240U}, {9U, 768U}}) {
    SCOPED_TRACE(cols);
    auto x = bf16(rows, cols, 8), gain = bf16(1, cols), shift = bf16(1, cols), n = bf16(rows, cols, 64);
    auto mean = f32(rows), rstd = f32(rows);
    x.normal(1, 3), gain.normal(2), shift.normal(3);
    norm(stream(), x, weights(gain, shift), 1e-6F, n, statistics(mean, rstd));
    auto in = x.read(), g = gain.read(), s = shift.read();
    std::vector<double> want(in.size()), want_mean(rows), want_rstd(rows);
    host_->norm(OnHost::matrix(in, rows), {g.data(), layer() ? s.data() : nullptr}, 1e-6, OnHost::matrix(want, rows),
                on_host(want_mean, want_rstd));
    EXPECT_TRUE(close(n.read(), want, rounding));
    EXPECT_TRUE(close(rstd.read(), want_rstd, f32_rounding));
    if (!layer()) continue;
    EXPECT_TRUE(close(mean.read(), want_mean, f32_rounding));
  }
}

/// Rows of one lane's vector and of some, and those that are a block's.
TEST_P(CudaNorms, AddTheirGradientAndMakeTheNormAgain) {
  for (const auto& [rows, cols] : {std::pair{19U, 3584U}, {37U, 64U}, {2500U, 768U}, {5U, 1024U}, {6U, 1032U}}) {
    SCOPED_TRACE(cols);
    auto x = bf16(rows, cols), gain = bf16(1, cols), shift = bf16(1, cols);
    auto n = bf16(rows, cols, 192), again = bf16(rows, cols, 192);
    auto mean = f32(rows), rstd = f32(rows);
    x.normal(1, 2), gain.normal(2), shift.normal(3);
    norm(stream(), x, weights(gain, shift), 1e-6F, n, statistics(mean, rstd));
    for (const bool accumulate : {false, true}) {
      auto dn = bf16(rows, cols), dx = bf16(rows, cols, 64);
      dn.normal(3);
      if (accumulate) dx.normal(4);
      auto in = x.read(), g = gain.read(), gradient = dn.read(), m = mean.read(), scale = rstd.read();
      auto want = accumulate ? dx.read() : std::vector<double>(rows * cols, 0.0);
      host_->norm_backward(OnHost::matrix(gradient, rows), OnHost::matrix(in, rows), {g.data(), nullptr},
                           on_host(m, scale), accumulate, OnHost::matrix(want, rows), {});
      norm_backward(stream(), dn, x, weights(gain, shift), statistics(mean, rstd), accumulate, dx, again, {}, {});
      EXPECT_TRUE(close(dx.read(), want, rounding));
      EXPECT_TRUE(same_bits(n.bits(), again.bits()));
      if (accumulate) continue;
      norm_backward(stream(), dn, x, weights(gain, shift), statistics(mean, rstd), false, dn, Matrix<Bf16>{}, {},
                    {});  // in place
      EXPECT_EQ(dn.read(), dx.read());
    }
  }
}

/// With much and with little memory for partial sums: they are cut otherwise. In a fixed order: the same bits again.
TEST_P(CudaNorms, HaveTheHostsGradientsOfWhatTheyMultiplyWithAndAdd) {
  for (const auto& [rows, cols] : {std::pair{5000U, 768U}, {7U, 64U}, {77U, 1024U}, {33U, 2304U}}) {
    SCOPED_TRACE(cols);
    auto x = bf16(rows, cols, 8), dn = bf16(rows, cols, 24), gain = bf16(1, cols), shift = bf16(1, cols);
    auto mean = f32(rows), rstd = f32(rows);
    x.normal(1, 3), dn.normal(2), mean.normal(3, 0.1), rstd.normal(4), gain.normal(7), shift.normal(8);
    auto in = x.read(), gradient = dn.read(), m = mean.read(), scale = rstd.read(), g = gain.read();
    for (const std::size_t floats : {ColumnPartials::wanted(cols), std::size_t{2} * cols}) {
      const Buffer partials(floats * sizeof(float));
      gpu_->fill(partials, 0xff);
      for (const bool accumulate : {false, true}) {
        auto d_gain = f32(1, cols), d_shift = f32(1, cols), again = f32(1, cols);
        auto dx = bf16(rows, cols, 8), alone = bf16(rows, cols, 8);
        if (accumulate) d_gain.normal(5), d_shift.normal(6), again.normal(5);
        auto want_gain = accumulate ? d_gain.read() : std::vector<double>(cols, nan);
        auto want_shift = accumulate ? d_shift.read() : std::vector<double>(cols, nan);
        std::vector<double> want(rows * cols);
        host_->norm_backward(OnHost::matrix(gradient, rows), OnHost::matrix(in, rows), {g.data(), nullptr},
                             on_host(m, scale), false, OnHost::matrix(want, rows), {},
                             {want_gain.data(), layer() ? want_shift.data() : nullptr, accumulate});
        const ColumnPartials scratch{partials.data<float>(), floats};
        const auto run = [&](auto& to, auto& at) {
          norm_backward(stream(), dn, x, weights(gain, shift), statistics(mean, rstd), false, to, Matrix<Bf16>{},
                        {at.data(), layer() ? d_shift.data() : nullptr, accumulate}, scratch);
        };
        run(dx, d_gain);
        EXPECT_TRUE(close(dx.read(), want, rounding));
        EXPECT_TRUE(close(d_gain.read(), want_gain, f32_rounding));
        if (layer()) {
          EXPECT_TRUE(close(d_shift.read(), want_shift, f32_rounding));
        }
        run(dx, again);
        EXPECT_TRUE(same_bits(d_gain.bits(), again.bits()));
        norm_backward(stream(), dn, x, weights(gain, shift), statistics(mean, rstd), false, alone, Matrix<Bf16>{}, {},
                      {});
        EXPECT_TRUE(same_bits(dx.bits(), alone.bits()));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(RmsAndLayer, CudaNorms, ::testing::Bool());

TEST_F(CudaTraining, RowsAreSummedInAFixedOrder) {
  for (const auto& [rows, cols] : {std::pair{5000U, 3072U}, {2U, 100000U}, {300U, 8U}}) {
    SCOPED_TRACE(cols);
    auto dy = bf16(rows, cols, 64);
    dy.normal(1);
    const auto values = dy.read();
    const Buffer partials(ColumnPartials::wanted(cols) * sizeof(float));
    const ColumnPartials scratch{partials.data<float>(), ColumnPartials::wanted(cols)};
    gpu_->fill(partials, 0xff);
    for (const bool accumulate : {false, true}) {
      auto sums = f32(1, cols), again = f32(1, cols);
      if (accumulate) sums.normal(2), again.normal(2);
      auto want = accumulate ? sums.read() : std::vector<double>(cols, 0.0);
      for (std::size_t i = 0; i < values.size(); ++i) want[i % cols] += values[i];
      sum_rows(stream(), dy, accumulate, sums.data(), scratch);
      sum_rows(stream(), dy, accumulate, again.data(), scratch);
      EXPECT_TRUE(close(sums.read(), want, f32_rounding));
      EXPECT_TRUE(same_bits(sums.bits(), again.bits()));
    }
  }
}

// Element by element -------------------------------------------------------------------------------------------------

TEST_F(CudaTraining, RotationsTurnPairsAndBackward) {
  constexpr std::size_t seq = 13, batch = 2, heads = 4, kv_heads = 2;
  for (const std::size_t head : {16U, 128U}) {
    const std::size_t cols = (heads + 2 * kv_heads) * head, half = head / 2;
    auto qkv = bf16(batch * seq, cols, 192);
    auto table = f32(seq, head);
    std::vector<double> turns(seq * head);
    for (std::size_t p = 0; p < seq; ++p) {
      for (std::size_t i = 0; i < half; ++i) {
        const double angle =
            static_cast<double>(p) * std::pow(1e4, -2.0 * static_cast<double>(i) / static_cast<double>(head));
        turns[p * head + i] = std::cos(angle), turns[p * head + half + i] = std::sin(angle);
      }
    }
    qkv.normal(1), table.write(turns);
    for (const auto rotation : {training::Rotation::forward, training::Rotation::backward}) {
      const double direction = rotation == training::Rotation::forward ? 1 : -1;
      auto want = qkv.read();
      for (std::size_t r = 0; r < batch * seq; ++r) {
        for (std::size_t h = 0; h < heads + kv_heads; ++h) {
          for (std::size_t i = 0; i < half; ++i) {
            double& a = want[r * cols + h * head + i];
            double& b = want[r * cols + h * head + half + i];
            const double cosine = turns[r % seq * head + i], sine = direction * turns[r % seq * head + half + i];
            std::tie(a, b) = std::tuple(a * cosine - b * sine, b * cosine + a * sine);
          }
        }
      }
      rope(stream(), qkv, table.data(), {batch, seq, heads, kv_heads, head}, rotation);
      EXPECT_TRUE(close(qkv.read(), want, rounding));
    }
  }
}

TEST_F(CudaTraining, SwigluAndItsGradientInPlace) {
  for (const auto& [rows, cols] : {std::pair{9U, 18944U}, {70000U, 8U}, {3U, 160U}}) {
    SCOPED_TRACE(cols);
    auto gate_up = bf16(rows, 2 * cols, 128), h = bf16(rows, cols, 64), dh = bf16(rows, cols, 64);
    gate_up.normal(1, 2), dh.normal(2);
    swiglu(stream(), gate_up, h);
    const auto in = gate_up.read(), gradient = dh.read();
    std::vector<double> want_h, want(in.size());
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < cols; ++c) {
        const double gate = in[r * 2 * cols + c], up = in[r * 2 * cols + cols + c], g = gradient[r * cols + c];
        const double s = 1 / (1 + std::exp(-gate));
        want_h.push_back(gate * s * up);
        want[r * 2 * cols + c] = g * up * s * (1 + gate * (1 - s));
        want[r * 2 * cols + cols + c] = g * gate * s;
      }
    }
    EXPECT_TRUE(close(h.read(), want_h, rounding));
    auto kept = bf16(rows, 2 * cols, 128);
    kept.write(in);
    swiglu_backward(stream(), kept, dh, false);
    EXPECT_TRUE(close(kept.read(), want, rounding));
    EXPECT_EQ(dh.read(), gradient);
    swiglu_backward(stream(), gate_up, dh, true);
    EXPECT_EQ(gate_up.read(), kept.read());
    EXPECT_TRUE(same_bits(dh.bits(), h.bits()));
  }
}

TEST_F(CudaTraining, GeluAndItsGradientInPlace) {
  OnHost host;
  for (const auto& [rows, cols] : {std::pair{9U, 3072U}, {70000U, 8U}, {3U, 160U}}) {
    SCOPED_TRACE(cols);
    auto u = bf16(rows, cols, 128), h = bf16(rows, cols, 64), dh = bf16(rows, cols, 64);
    u.normal(1, 2), dh.normal(2);
    gelu(stream(), u, h);
    auto in = u.read(), gradient = dh.read();
    std::vector<double> want_h(in.size());
    host->gelu(OnHost::matrix(in, rows), OnHost::matrix(want_h, rows));
    EXPECT_TRUE(close(h.read(), want_h, rounding));
    auto kept = bf16(rows, cols, 128);
    kept.write(in);
    gelu_backward(stream(), kept, dh, false);
    EXPECT_EQ(dh.read(), gradient);
    gelu_backward(stream(), u, dh, true);
    host->gelu_backward(OnHost::matrix(in, rows), OnHost::matrix(gradient, rows), false);
    EXPECT_TRUE(close(kept.read(), in, rounding));
    EXPECT_EQ(u.read(), kept.read());
    EXPECT_TRUE(same_bits(dh.bits(), h.bits()));
  }
}

TEST_F(CudaTraining, PositionsAreAddedAndTokensGetTheGradientsOfTheirRows) {
  constexpr std::size_t seq = 50, rows = 2 * seq, cols = 768, vocab = 30;
  OnHost host;
  auto table = bf16(vocab, cols), positions = bf16(64, cols), x = bf16(rows, cols, 8);
  table.normal(1), positions.normal(2);
  std::vector<int> tokens, order(rows);
  for (std::size_t i = 0; i < rows; ++i)
    tokens.push_back(std::max(static_cast<int>(reference::mix(i) % vocab) - 3, -1));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return tokens[static_cast<std::size_t>(a)] < tokens[static_cast<std::size_t>(b)];
  });
  const auto tokens_on_gpu = upload(tokens), order_on_gpu = upload(order);
  embed(stream(), table, tokens_on_gpu.data<const int>(), positions, seq, x);
  auto rows_of_table = table.read(), rows_of_positions = positions.read();
  std::vector<double> want(rows * cols);
  host->embedding(OnHost::matrix(rows_of_table, vocab), tokens.data(), OnHost::matrix(rows_of_positions, 64), seq,
                  OnHost::matrix(want, rows));
  EXPECT_TRUE(close(x.read(), want, rounding));

  auto dx = bf16(rows, cols, 8);
  auto d_table = f32(vocab, cols);
  dx.normal(3), d_table.normal(4);
  auto gradient = dx.read(), want_table = d_table.read();
  host->embedding_backward(OnHost::matrix(gradient, rows), tokens.data(), order.data(),
                           OnHost::matrix(want_table, vocab));
  embed_backward(stream(), dx, tokens_on_gpu.data<const int>(), order_on_gpu.data<const int>(), d_table);
  EXPECT_TRUE(close(d_table.read(), want_table, f32_rounding));
}

TEST_F(CudaTraining, TheEmbeddingTakesRowsAndCopiesKeepThem) {
  auto table = bf16(11, 72), x = bf16(4, 72, 8), y = bf16(4, 72);
  table.normal(1);
  const std::vector<int> tokens{10, 0, 3, 3};
  const auto on_gpu = upload(tokens);
  embed(stream(), table, on_gpu.data<const int>(), Matrix<const Bf16>{}, 4, x);
  copy_rows(stream(), x, y);
  const auto rows = table.read();
  std::vector<double> want;
  for (const int token : tokens) want.insert(want.end(), rows.begin() + token * 72, rows.begin() + (token + 1) * 72);
  EXPECT_EQ(x.read(), want);
  EXPECT_EQ(y.read(), want);
}

// Loss ---------------------------------------------------------------------------------------------------------------

TEST_F(CudaTraining, CrossEntropyAndItsGradientInPlace) {
  for (const auto& [rows, cols] : {std::pair{6U, 152064U}, {3U, 1001U}, {40U, 256U}, {2U, 8U}}) {
    SCOPED_TRACE(cols);
    const std::size_t room = (8 - cols % 8) % 8 + 8;
    auto logits = bf16(rows, cols, room);
    auto losses = f32(rows);
    logits.normal(1, 3);
    std::vector<int> targets;
    for (unsigned r = 0; r < rows; ++r) targets.push_back(static_cast<int>(r % 2 == 0 ? cols - 1 - r / 2 : r));
    const auto on_gpu = upload(targets);
    const auto in = logits.read();
    std::vector<double> want, want_losses;
    for (std::size_t r = 0; r < rows; ++r) {
      const auto* const row = in.data() + r * cols;
      const double max = *std::max_element(row, row + cols);
      double sum = 0;
      for (std::size_t c = 0; c < cols; ++c) sum += std::exp(row[c] - max);
      want_losses.push_back(max + std::log(sum) - row[targets[r]]);
      for (std::size_t c = 0; c < cols; ++c) {
        want.push_back(0.25 * (std::exp(row[c] - max) / sum - (static_cast<int>(c) == targets[r] ? 1 : 0)));
      }
    }
    cross_entropy(stream(), logits, on_gpu.data<const int>(), 0.25F, losses.data());
    EXPECT_TRUE(close(losses.read(), want_losses, f32_rounding));
    EXPECT_TRUE(close(logits.read(), want, rounding));
  }
}

TEST_F(CudaTraining, CrossEntropyOfPartsOfTheVocabularyIsThatOfTheWhole) {
  constexpr std::size_t rows = 5, cols = 1600, part = cols / 4;
  auto whole = bf16(rows, cols, 8), cut = bf16(rows, cols, 8);
  auto losses = f32(rows), cut_losses = f32(rows);
  whole.normal(1, 3), cut.normal(1, 3);
  const std::vector<int> targets{0, 1599, 399, 400, 1000};
  const auto on_gpu = upload(targets);
  const Buffer parts(4 * rows * sizeof(LogitPart));
  cross_entropy(stream(), whole, on_gpu.data<const int>(), 0.25F, losses.data());
  std::vector<Buffer> local;
  for (int r = 0; r < 4; ++r) {
    auto of_part = targets;
    for (auto& target : of_part) target = target / static_cast<int>(part) == r ? target % static_cast<int>(part) : -1;
    local.push_back(upload(of_part));
    logit_parts(stream(), cut.matrix().columns(static_cast<std::size_t>(r) * part, part),
                local.back().data<const int>(), parts.data<LogitPart>() + static_cast<std::size_t>(r) * rows);
  }
  for (int r = 0; r < 4; ++r) {
    cross_entropy(stream(), cut.matrix().columns(static_cast<std::size_t>(r) * part, part),
                  local[static_cast<std::size_t>(r)].data<const int>(), 0.25F, cut_losses.data(),
                  parts.data<LogitPart>(), 4);
    EXPECT_TRUE(close(cut_losses.read(), losses.read(), f32_rounding));
  }
  EXPECT_TRUE(close(cut.read(), whole.read(), rounding));
}

TEST_F(CudaTraining, ALogitThatIsNotFiniteShowsInTheLoss) {
  for (const double bad : {nan, HUGE_VAL}) {
    auto logits = bf16(2, 1000);
    logits.normal(1);
    auto values = logits.read();
    values[1003] = bad;
    logits.write(values);
    auto losses = f32(2);
    const auto targets = upload(std::vector<int>{5, 7});
    cross_entropy(stream(), logits, targets.data<const int>(), 1, losses.data());
    const auto got = losses.read();
    EXPECT_TRUE(std::isfinite(got[0]));
    EXPECT_FALSE(std::isfinite(got[1]));
  }
}

TEST_F(CudaTraining, SumsAreAdded) {
  auto values = f32(10007);
  values.normal(1);
  const auto sum = upload(std::vector<double>{3});
  add_sum(stream(), values.data(), 10007, 0.5, sum.data<double>());
  double want = 0;
  for (const double value : values.read()) want += value;
  EXPECT_NEAR(download<double>(sum).front(), 3 + 0.5 * want, 1e-9);
}

// Gradients and parameters -------------------------------------------------------------------------------------------

training::Summary summary_of(const std::vector<double>& values, std::size_t first) {
  training::Summary summary{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    summary.squared_norm += values[i] * values[i];
    summary.non_finite += std::isfinite(values[i]) ? 0 : 1;
    summary.checksum += std::bit_cast<std::uint32_t>(static_cast<float>(values[i])) * (2 * (first + i) + 1);
  }
  return summary;
}

class Summaries : public CudaTraining {
 protected:
  training::Summary of(const F& values, std::size_t count, std::size_t cut) {
    const Buffer partials(partials_needed(0) * sizeof(training::Summary)), result(sizeof(training::Summary));
    gpu_->fill(result, 0);
    gpu_->fill(partials, 0xff);
    auto* const to = result.data<training::Summary>();
    summarize(stream(), values.data(), 0, cut, partials.data<training::Summary>(), to);
    summarize(stream(), values.data() + cut, cut, count - cut, partials.data<training::Summary>(), to);
    return gpu_->read(to);
  }
};

TEST_F(Summaries, OfPartsAreThatOfTheWhole) {
  constexpr std::size_t count = 1234567;
  auto values = f32(count);
  values.normal(1);
  const auto want = summary_of(values.read(), 0);
  for (const std::size_t cut : {0U, 4U, 400000U}) {
    const auto got = of(values, count, cut);
    EXPECT_NEAR(got.squared_norm / want.squared_norm, 1, 1e-12);
    EXPECT_EQ(got.non_finite, 0U);
    EXPECT_EQ(got.checksum, want.checksum);
  }
  EXPECT_EQ(of(values, count, 4).squared_norm, of(values, count, 4).squared_norm);
}

TEST_F(Summaries, OfBf16SeeEveryBit) {
  auto values = bf16(1, 10003);
  values.normal(1);
  const auto read = values.read();
  const auto bits = values.bits();
  training::Summary want{};
  for (std::size_t i = 0; i < read.size(); ++i) {
    want.squared_norm += read[i] * read[i];
    want.checksum += training::checksum_term(std::bit_cast<std::uint16_t>(bits[i]), 40 + i);
  }
  const Buffer partials(partials_needed(0) * sizeof(training::Summary));
  const auto result = upload(std::vector<training::Summary>(1));
  const Bf16* const from = values.data();
  summarize(stream(), from, 40, read.size(), partials.data<training::Summary>(), result.data<training::Summary>());
  const auto got = gpu_->read(result.data<const training::Summary>());
  EXPECT_NEAR(got.squared_norm / want.squared_norm, 1, 1e-12);
  EXPECT_EQ(got.checksum, want.checksum);
}

TEST_F(Summaries, CountWhatIsNotFinite) {
  auto values = f32(1003);
  values.normal(1);
  auto damaged = values.read();
  damaged[1002] = nan, damaged[17] = HUGE_VAL;
  values.write(damaged);
  const auto got = of(values, 1003, 500);
  EXPECT_EQ(got.non_finite, 2U);
  EXPECT_FALSE(std::isfinite(got.squared_norm));
}

TEST_F(CudaTraining, AdamWUpdatesParametersAndTheirCopies) {
  constexpr std::size_t rows_a = 24, cols_a = 3584, rows_b = 640, cols_b = 8, size_a = rows_a * cols_a;
  constexpr std::size_t count = size_a + rows_b * cols_b;
  auto parameters = f32(count), gradient = f32(count), first = f32(count), second = f32(count);
  auto a = bf16(rows_a, cols_a, 64), b = bf16(rows_b, cols_b, 3584);
  parameters.normal(1, 0.02), gradient.normal(2), first.normal(3, 0.1), second.normal(4, 0.1);
  auto squares = second.read();
  for (double& value : squares) value *= value;
  second.write(squares);
  const auto segments = upload(std::vector<Segment>{{0, a.matrix(), 1}, {size_a, b.matrix(), 2, false}});
  const training::FlatState<float> state{parameters.data(), gradient.data(), first.data(), second.data(), count};
  training::AdamW settings;
  settings.step = 3;

  const auto g = gradient.read();
  auto p = parameters.read(), m = first.read(), v = second.read();
  auto summary = summary_of(g, 0);
  const double clip = std::min(1.0, settings.max_norm / (std::sqrt(summary.squared_norm) + 1e-6));
  for (std::size_t i = 0; i < count; ++i) {
    m[i] = settings.beta1 * m[i] + (1 - settings.beta1) * clip * g[i];
    v[i] = settings.beta2 * v[i] + (1 - settings.beta2) * clip * g[i] * clip * g[i];
    if (i < size_a) p[i] -= settings.lr * settings.weight_decay * p[i];  // the second segment does not decay
    p[i] -= settings.lr * m[i] / (1 - std::pow(settings.beta1, 3)) /
            (std::sqrt(v[i] / (1 - std::pow(settings.beta2, 3))) + settings.eps);
  }
  const auto on_gpu = upload(std::vector<training::Summary>{summary});
  const auto before = parameters.read();
  const Buffer partials(partials_needed(2) * sizeof(training::Summary));
  gpu_->fill(partials, 0xff);
  const auto after = upload(std::vector<training::Summary>(1));
  adamw(stream(), segments.data<const Segment>(), 2, state, settings, on_gpu.data<const training::Summary>(),
        partials.data<training::Summary>(), after.data<training::Summary>());
  EXPECT_TRUE(close(parameters.read(), p, f32_rounding));
  EXPECT_TRUE(close(first.read(), m, f32_rounding));
  EXPECT_TRUE(close(second.read(), v, f32_rounding));
  const auto updated = parameters.read();
  const auto got = gpu_->read(after.data<const training::Summary>()), want = summary_of(updated, 0);
  EXPECT_NEAR(got.squared_norm / want.squared_norm, 1, 1e-12);
  EXPECT_EQ(got.non_finite, 0U);
  EXPECT_EQ(got.checksum, want.checksum);
  std::vector<double> moved(count), want_moved(count);
  for (std::size_t i = 0; i < count; ++i) moved[i] = updated[i] - before[i], want_moved[i] = p[i] - before[i];
  EXPECT_TRUE(close(moved, want_moved, 1e-4));
  const auto copy_a = a.read(), copy_b = b.read();
  for (std::size_t i = 0; i < size_a; ++i) ASSERT_EQ(copy_a[i], rounded(updated[i])) << i;
  for (std::size_t i = 0; i < copy_b.size(); ++i) ASSERT_EQ(copy_b[i], rounded(2 * updated[size_a + i])) << i;

  auto other_a = bf16(rows_a, cols_a, 64), other_b = bf16(rows_b, cols_b, 3584);
  const auto others = upload(std::vector<Segment>{{0, other_a.matrix(), 1}, {size_a, other_b.matrix(), 2}});
  write_copies(stream(), others.data<const Segment>(), 2, parameters.data());
  EXPECT_EQ(other_a.read(), copy_a);
  EXPECT_EQ(other_b.read(), copy_b);
}

TEST_F(CudaTraining, AdamWFindsTheGradientOfAShareInThatOfAll) {
  const auto updated = [&](std::size_t behind) {
    auto parameters = f32(64), first = f32(64), second = f32(64), gradient = f32(256);
    auto copy = bf16(1, 64);
    parameters.normal(1), gradient.normal(2);
    first.write(std::vector<double>(64)), second.write(std::vector<double>(64));
    const auto segments = upload(std::vector<Segment>{{0, copy.matrix(), 1, true, behind}});
    const auto norm = upload(std::vector<training::Summary>{{1, 0, 0}}),
               after = upload(std::vector<training::Summary>(1));
    const Buffer partials(partials_needed(1) * sizeof(training::Summary));
    adamw(stream(), segments.data<const Segment>(), 1,
          {parameters.data(), gradient.data() + (128 - behind), first.data(), second.data(), 64}, {},
          norm.data<const training::Summary>(), partials.data<training::Summary>(), after.data<training::Summary>());
    return std::pair(parameters.read(), copy.read());
  };
  EXPECT_EQ(updated(128), updated(0));
}

TEST_F(CudaTraining, AdamWLeavesEverythingAloneIfTheGradientIsNotFinite) {
  auto parameters = f32(64), gradient = f32(64), first = f32(64), second = f32(64);
  auto copy = bf16(8, 8);
  for (auto* values : {&parameters, &gradient, &first}) values->normal(1);
  second.write(std::vector<double>(64, 1)), copy.normal(2);
  const auto segments = upload(std::vector<Segment>{{0, copy.matrix(), 1}});
  const training::FlatState<float> state{parameters.data(), gradient.data(), first.data(), second.data(), 64};
  const auto before = std::tuple(parameters.read(), first.read(), second.read(), copy.read());
  for (const auto& bad :
       {training::Summary{1, 1, 0}, training::Summary{nan, 0, 0}, training::Summary{HUGE_VAL, 0, 0}}) {
    const auto summary = upload(std::vector<training::Summary>{bad});
    const Buffer partials(partials_needed(1) * sizeof(training::Summary));
    const auto after = upload(std::vector<training::Summary>(1));
    adamw(stream(), segments.data<const Segment>(), 1, state, {}, summary.data<const training::Summary>(),
          partials.data<training::Summary>(), after.data<training::Summary>());
    EXPECT_EQ(std::tuple(parameters.read(), first.read(), second.read(), copy.read()), before);
    EXPECT_EQ(gpu_->read(after.data<const training::Summary>()).checksum, summary_of(parameters.read(), 0).checksum);
  }
}

TEST_F(CudaTraining, GradientsAreRoundedForTheirWayAndWidenedAgain) {
  auto values = f32(10004), again = f32(10004);
  auto half = bf16(1, 10008);
  values.normal(1);
  const auto before = values.read();
  round_to_bf16(stream(), values.data(), half.data(), 10004);
  widen_to_f32(stream(), half.data(), again.data(), 10004);
  const auto got = again.read();
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], rounded(before[i])) << i;
}

TEST_F(CudaTraining, GradientsOfSeveralRanksAreAddedInTheOrderOfRanks) {
  constexpr std::size_t count = 10004, stride = 10240;
  for (const int rank : {0, 1, 3}) {
    for (const bool add : {false, true}) {
      auto mine = f32(count), others = f32(3 * stride), to = f32(count);
      mine.normal(1), others.normal(2), to.normal(3);
      const auto own = mine.read(), theirs = others.read(), there = to.read();
      const Buffer partials(3 * summarizing_blocks * sizeof(training::Summary));
      auto* const parts = partials.data<training::Summary>();
      const auto told = upload(std::vector<training::Summary>(3));
      auto* const summaries = told.data<training::Summary>();
      sum_f32(stream(), mine.data(), {others.data(), stride, 4, rank}, to.data(), count, add, {parts, 7},
              {parts + summarizing_blocks, 11}, {parts + 2 * summarizing_blocks, 7});
      for (const int i : {0, 1, 2})
        add_partials(stream(), parts + i * summarizing_blocks, summarizing_blocks, summaries + i);
      const auto got = to.read();
      EXPECT_EQ(gpu_->read(summaries).checksum, summary_of(own, 7).checksum);
      EXPECT_EQ(gpu_->read(summaries + 1).checksum, summary_of(got, 11).checksum);
      EXPECT_NEAR(gpu_->read(summaries + 1).squared_norm, summary_of(got, 11).squared_norm, 1e-9 * count);
      std::uint64_t came = 0;
      for (std::size_t other = 0; other < 3; ++other) {
        const auto begin = theirs.begin() + static_cast<std::ptrdiff_t>(other * stride);
        came += summary_of({begin, begin + static_cast<std::ptrdiff_t>(count)}, 7).checksum;
      }
      EXPECT_EQ(gpu_->read(summaries + 2).checksum, came);
      for (std::size_t i = 0; i < count; ++i) {
        float sum = 0;
        for (int r = 0, other = 0; r < 4; ++r) {
          sum += static_cast<float>(r == rank ? own[i] : theirs[static_cast<std::size_t>(other++) * stride + i]);
        }
        if (add) sum += static_cast<float>(there[i]);
        ASSERT_EQ(got[i], static_cast<double>(sum)) << i << " of rank " << rank;
      }
    }
  }
}

TEST_F(CudaTraining, RandomWeightsAreThoseOfTheReference) {
  auto a = bf16(7, 1001, 31);
  auto b = f32(5000);
  fill_normal(stream(), a.matrix(), 0.02, 77);
  fill_normal(stream(), Matrix<float>{b.data(), 1, 5000, 5000}, 0.02, 300);
  auto part = f32(1000);
  fill_normal(stream(), Matrix<float>{part.data(), 1, 1000, 1000}, 0.02, 300, 4000);
  EXPECT_EQ(part.read(), [all = b.read()] { return std::vector<double>(all.begin() + 4000, all.end()); }());
  // Columns 200 to 299 of rows of 1000.
  fill_normal(stream(), Matrix<float>{part.data(), 1, 300, 300}, 0.02, 300, 100, {200, 100, 1000});
  const auto all = b.read(), some = part.read();
  for (std::size_t i = 0; i < 300; ++i) EXPECT_EQ(some[i], all[(i + 100) / 100 * 1000 + 200 + i % 100]) << i;
  std::vector<double> want_a(7007), want_b(5000);
  for (std::size_t i = 0; i < 7007; ++i) want_a[i] = 0.02 * reference::normal((77ULL << 32) + i, 0);
  for (std::size_t i = 0; i < 5000; ++i) want_b[i] = 0.02 * reference::normal((300ULL << 32) + i, 0);
  EXPECT_TRUE(close(a.read(), want_a, rounding));
  EXPECT_TRUE(close(b.read(), want_b, 1e-7));
}

// Products -----------------------------------------------------------------------------------------------------------

class CudaProducts : public CudaTraining {
 protected:
  void SetUp() override {
    CudaTraining::SetUp();
    if (IsSkipped()) return;
    workspace_ = Buffer(Products::workspace_bytes);
    products_ = std::make_unique<Products>(*gpu_);
    products_->use_workspace(workspace_.data());
  }

  template <class Out>
  std::vector<double> multiplied(const training::Gemm<Bf16, Out>& g, const std::vector<double>& a,
                                 const std::vector<double>& b, const std::vector<double>& c,
                                 const std::vector<double>& bias) const {
    const auto rows = g.d.rows, cols = g.d.cols, inner = g.a_transposed ? g.a.rows : g.a.cols;
    std::vector<double> d(rows * cols);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t k = 0; k < cols; ++k) {
        double sum = 0;
        for (std::size_t i = 0; i < inner; ++i) {
          sum += a[g.a_transposed ? i * g.a.cols + r : r * g.a.cols + i] *
                 b[g.b_transposed ? k * g.b.cols + i : i * g.b.cols + k];
        }
        d[r * cols + k] = g.alpha * sum + (g.beta != 0 ? g.beta * c[r * cols + k] : 0) + (bias.empty() ? 0 : bias[k]);
      }
    }
    return d;
  }

  template <class Out>
  void expect_product(std::size_t rows, std::size_t cols, std::size_t inner, bool a_transposed, bool b_transposed,
                      double beta, bool other_c, bool with_bias) {
    SCOPED_TRACE(std::to_string(rows) + " " + std::to_string(cols) + " " + std::to_string(inner) +
                 (a_transposed ? " T" : " N") + (b_transposed ? "T " : "N ") + std::to_string(beta) +
                 (other_c ? " c" : "") + (with_bias ? " bias" : ""));
    auto a = a_transposed ? bf16(inner, rows, 8) : bf16(rows, inner, 16);
    auto b = b_transposed ? bf16(cols, inner, 24) : bf16(inner, cols, 64);
    auto bias = bf16(1, cols);
    Device<Out> c(*gpu_, rows, cols, 32), d(*gpu_, rows, cols, 32);
    a.normal(1), b.normal(2), bias.normal(3);
    if (other_c) c.normal(4);
    if (beta != 0 && !other_c) d.normal(4);
    const training::Gemm<Bf16, Out> g{.d = d,
                                      .a = a,
                                      .a_transposed = a_transposed,
                                      .b = b,
                                      .b_transposed = b_transposed,
                                      .alpha = 0.5,
                                      .beta = beta,
                                      .c = other_c ? c.data() : nullptr,
                                      .bias = with_bias ? bias.data() : nullptr};
    const auto want = multiplied(g, a.read(), b.read(), other_c ? c.read() : d.read(),
                                 with_bias ? bias.read() : std::vector<double>{});
    products_->multiply(g);
    EXPECT_TRUE(close(d.read(), want, std::is_same_v<Out, float> ? f32_rounding : rounding));
  }

  Buffer workspace_;
  std::unique_ptr<Products> products_;
};

TEST_F(CudaProducts, AreRightInEveryLayout) {
  for (const bool tuned : {false, true}) {
    if (tuned) products_->start_tuning();
    const std::size_t more = tuned ? 8 : 0;  // other plans
    expect_product<Bf16>(72, 136 + more, 200, false, true, 0, false, false);
    expect_product<Bf16>(72, 136 + more, 200, false, true, 0, false, true);
    expect_product<Bf16>(72, 136 + more, 200, false, true, 1, true, false);
    expect_product<Bf16>(72, 136 + more, 200, false, true, 1, true, true);
    expect_product<Bf16>(72, 136 + more, 200, false, false, 0, false, false);
    expect_product<Bf16>(64, 8 + more, 64, false, true, 0, false, false);
    expect_product<float>(64, 120 + more, 300, true, false, 0, false, false);
    expect_product<float>(8, 64 + more, 14, true, false, 0, false, false);
    if (!tuned) {
      expect_product<Bf16>(72, 136, 200, false, true, 1, false, false);
      expect_product<float>(64, 120, 300, true, false, 1, false, false);
    }
    if (tuned) products_->finish_tuning(group_);
  }
  EXPECT_GE(products_->plans().size(), 16U);
}

/// Long sums of few elements are cut, where that is faster.
TEST_F(CudaProducts, ThatAreThinAreRightAfterTuningAndGiveTheSameBitsTwice) {
  constexpr std::size_t rows = 264, cols = 64, inner = 4096;
  auto a = bf16(inner, rows, 8), b = bf16(inner, cols, 8), x = bf16(rows, inner, 8);
  Device<float> d(*gpu_, rows, cols, 0);
  auto u = bf16(rows, cols, 8);
  a.normal(1), b.normal(2), x.normal(3);
  const training::Gemm<Bf16, float> gradient{.d = d, .a = a, .a_transposed = true, .b = b};
  const training::Gemm<Bf16, Bf16> compressed{.d = u, .a = x, .b = b};
  products_->start_tuning();
  products_->multiply(gradient);
  products_->multiply(compressed);
  products_->finish_tuning(group_);
  products_->multiply(gradient);
  products_->multiply(compressed);
  const auto d_first = d.read(), u_first = u.read();
  EXPECT_TRUE(close(d_first, multiplied(gradient, a.read(), b.read(), {}, {}), f32_rounding));
  EXPECT_TRUE(close(u_first, multiplied(compressed, x.read(), b.read(), {}, {}), rounding));
  products_->multiply(gradient);
  products_->multiply(compressed);
  EXPECT_EQ(d.read(), d_first);
  EXPECT_EQ(u.read(), u_first);
}

TEST_F(CudaProducts, AreTakenFromWhatWasRememberedAndTunedAnewWhereThatDoesNotRun) {
  constexpr std::size_t n = 512;
  auto a = bf16(n, n, 8), b = bf16(n, n, 8), d = bf16(n, n, 8);
  a.normal(1), b.normal(2);
  const training::Gemm<Bf16, Bf16> product{.d = d, .a = a, .b = b};
  const auto tuned = [&](const Choices& remembered, Choices& chosen) {
    products_ = std::make_unique<Products>(*gpu_);
    products_->use_workspace(workspace_.data());
    products_->start_tuning(remembered);
    products_->multiply(product);
    const bool good = products_->finish_tuning(group_, &chosen);
    products_->multiply(product);
    return good;
  };
  Choices first, second, third;
  EXPECT_TRUE(tuned({}, first));
  ASSERT_EQ(first.size(), 1U);
  const auto bits = d.read();
  // One turn decides, so that chance may prefer another: what is taken is then the same.
  if (tuned(first, second)) {
    EXPECT_EQ(second, first);
    EXPECT_EQ(d.read(), bits);
  }
  auto damaged = first;
  damaged.begin()->second = "0 0 00ff";
  EXPECT_FALSE(tuned(damaged, third)) << "no algorithm of cuBLASLt";
  EXPECT_TRUE(third.empty());
  products_->start_tuning();
  products_->multiply(product);
  EXPECT_TRUE(products_->finish_tuning(group_, &third));
  EXPECT_EQ(third.size(), 1U);
}

// Attention ----------------------------------------------------------------------------------------------------------

/// What the formulas give, in f64; all in the layout of AttentionShape without room.
struct Reference {
  std::vector<double> out, lse, dqkv;
};

Reference attention_of(const AttentionShape& s, const std::vector<double>& qkv, const std::vector<double>& dout) {
  const auto size = static_cast<std::size_t>(s.head_size), heads = static_cast<std::size_t>(s.query_heads);
  const auto kv_heads = static_cast<std::size_t>(s.kv_heads), seq = static_cast<std::size_t>(s.sequence);
  const auto batch = static_cast<std::size_t>(s.batch), cols = (heads + 2 * kv_heads) * size;
  const double scale = 1 / std::sqrt(static_cast<double>(size));
  Reference result{std::vector<double>(batch * seq * heads * size), std::vector<double>(batch * heads * seq),
                   std::vector<double>(batch * seq * cols)};
  const auto dot = [&](const double* x, const double* y) {
    double sum = 0;
    for (std::size_t c = 0; c < size; ++c) sum += x[c] * y[c];
    return sum;
  };
  for (std::size_t b = 0; b < batch; ++b) {
    for (std::size_t h = 0; h < heads; ++h) {
      const auto k_at = (heads + h * kv_heads / heads) * size, v_at = k_at + kv_heads * size;
      for (std::size_t t = 0; t < seq; ++t) {
        const auto row = (b * seq + t) * cols, o_at = (b * seq + t) * heads * size + h * size;
        const auto visible = s.causal ? t + 1 : seq;
        std::vector<double> p(visible);
        double max = -HUGE_VAL, sum = 0;
        for (std::size_t j = 0; j < visible; ++j) {
          p[j] = scale * dot(&qkv[row + h * size], &qkv[(b * seq + j) * cols + k_at]);
          max = std::max(max, p[j]);
        }
        for (double& value : p) sum += value = std::exp(value - max);
        result.lse[(b * heads + h) * seq + t] = max + std::log(sum);
        double delta = 0;
        for (std::size_t j = 0; j < visible; ++j) {
          p[j] /= sum;
          const double* const v = &qkv[(b * seq + j) * cols + v_at];
          for (std::size_t c = 0; c < size; ++c) result.out[o_at + c] += p[j] * v[c];
          delta += p[j] * dot(&dout[o_at], v);
        }
        for (std::size_t j = 0; j < visible; ++j) {
          const auto other = (b * seq + j) * cols;
          const double ds = scale * p[j] * (dot(&dout[o_at], &qkv[other + v_at]) - delta);
          for (std::size_t c = 0; c < size; ++c) {
            result.dqkv[row + h * size + c] += ds * qkv[other + k_at + c];
            result.dqkv[other + k_at + c] += ds * qkv[row + h * size + c];
            result.dqkv[other + v_at + c] += p[j] * dout[o_at + c];
          }
        }
      }
    }
  }
  return result;
}

AttentionShape shape_of(int batch, int sequence, int heads, int kv_heads, int size, bool causal = true) {
  const auto q = static_cast<std::size_t>(heads * size), cols = static_cast<std::size_t>((heads + 2 * kv_heads) * size);
  return {batch, sequence, heads, kv_heads, size, cols, q + 64, q, cols + 192, causal};
}

class CudaAttention : public CudaTraining {
 protected:
  struct Run {
    M qkv, out, dout, dqkv;
    F lse;
  };
  Run run(const AttentionShape& s, const Attention& attention) const {
    const auto rows = static_cast<std::size_t>(s.batch * s.sequence);
    const auto q = static_cast<std::size_t>(s.query_heads * s.head_size);
    Run r{bf16(rows, s.qkv_stride), bf16(rows, q, s.out_stride - q), bf16(rows, q, s.dout_stride - q),
          bf16(rows, s.qkv_stride, s.dqkv_stride - s.qkv_stride),
          f32(static_cast<std::size_t>(s.batch * s.query_heads * s.sequence))};
    fill_normal(stream(), r.qkv.matrix(), 1, 1);
    fill_normal(stream(), r.dout.matrix(), 1, 2);
    const Buffer workspace(std::max<std::size_t>(attention.workspace_bytes(), 16));
    gpu_->fill(workspace, 0xff);
    attention.forward(stream(), r.qkv.data(), r.out.data(), r.lse.data(), workspace.data());
    gpu_->fill(workspace, 0xff);
    attention.backward(stream(), r.qkv.data(), r.out.data(), r.lse.data(), r.dout.data(), r.dqkv.data(),
                       workspace.data());
    gpu_->synchronize();
    return r;
  }

  void expect_right(const AttentionShape& s, const Attention& attention) const {
    SCOPED_TRACE(attention.name() + ", " + std::to_string(s.sequence) + " of " + std::to_string(s.query_heads) + "/" +
                 std::to_string(s.kv_heads) + " x " + std::to_string(s.head_size));
    const auto got = run(s, attention);
    const auto want = attention_of(s, got.qkv.read(), got.dout.read());
    EXPECT_TRUE(close(got.out.read(), want.out, attention_rounding));
    EXPECT_TRUE(close(got.lse.read(), want.lse, 1e-4));
    EXPECT_TRUE(close(got.dqkv.read(), want.dqkv, attention_rounding));
  }
};

TEST_F(CudaAttention, PlainIsTheFormula) {
  for (const auto& s :
       {shape_of(2, 77, 4, 2, 16), shape_of(1, 130, 6, 1, 128), shape_of(2, 64, 3, 3, 64), shape_of(1, 1, 2, 1, 32),
        shape_of(2, 77, 4, 2, 16, false), shape_of(1, 130, 6, 1, 128, false), shape_of(2, 64, 3, 3, 64, false)}) {
    expect_right(s, *make_plain_attention(s));
  }
}

TEST_F(CudaAttention, PlainRefusesHeadsThatItsTilesDoNotHold) {
  EXPECT_TRUE(contains(message_of([] { make_plain_attention(shape_of(1, 8, 2, 1, 256)); }), "at most 128"));
  EXPECT_TRUE(contains(message_of([] { make_plain_attention(shape_of(1, 8, 3, 2, 64)); }), "whole groups"));
}

class CudnnAttention : public CudaAttention {
 protected:
  std::unique_ptr<Attention> make(const AttentionShape& s, bool deterministic) const {
    try {
      return make_cudnn_attention(s, deterministic);
    } catch (const Unsupported& e) {
      reason_ = e.what();
      return nullptr;
    }
  }
  mutable std::string reason_;
};

TEST_F(CudnnAttention, IsTheFormula) {
  for (const bool deterministic : {true, false}) {
    for (const auto& s : {shape_of(2, 128, 4, 2, 64), shape_of(1, 192, 7, 1, 128), shape_of(2, 96, 3, 3, 16),
                          shape_of(2, 128, 4, 4, 64, false), shape_of(1, 192, 7, 1, 128, false)}) {
      const auto attention = make(s, deterministic);
      if (attention == nullptr) GTEST_SKIP() << reason_;
      expect_right(s, *attention);
    }
  }
}

TEST_F(CudnnAttention, IsThePlainOneAtFullSizeAndGivesTheSameBitsTwice) {
  const auto s = shape_of(2, 4096, 28, 4, 128);
  const auto attention = make(s, true);
  if (attention == nullptr) GTEST_SKIP() << reason_;
  const auto got = run(s, *attention), again = run(s, *attention), plain = run(s, *make_plain_attention(s));
  EXPECT_TRUE(close(got.out.read(), plain.out.read(), attention_rounding));
  EXPECT_TRUE(close(got.lse.read(), plain.lse.read(), 1e-4));
  EXPECT_TRUE(close(got.dqkv.read(), plain.dqkv.read(), attention_rounding));
  EXPECT_TRUE(same_bits(got.out.bits(), again.out.bits()));
  EXPECT_TRUE(same_bits(got.dqkv.bits(), again.dqkv.bits()));
}

}  // namespace
}  // namespace shakedown::cuda
