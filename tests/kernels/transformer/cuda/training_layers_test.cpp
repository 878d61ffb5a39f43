// Norms, rotations, MLP, embedding and loss on the GPU, each against the formula or the host in f64 with the same bf16
// inputs.
#include <numeric>
#include <string>
#include <tuple>

#include "kernels/gpu_sizes.hpp"
#include "kernels/transformer/cuda/kernels.hpp"
#include "tests/kernels/transformer/cuda/training_on_gpu.hpp"

namespace shakedown::cuda {
namespace {

constexpr std::size_t most_parts = column_parts(132);

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

/// Rows with one vector per lane or several, and rows that need a whole block.
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

/// With much and with little memory for partial sums, which are then split differently. The order is fixed, so that a
/// second run gives the same bits.
TEST_P(CudaNorms, HaveTheHostsGradientsOfWhatTheyMultiplyWithAndAdd) {
  for (const auto& [rows, cols] : {std::pair{5000U, 768U}, {7U, 64U}, {77U, 1024U}, {33U, 2304U}}) {
    SCOPED_TRACE(cols);
    auto x = bf16(rows, cols, 8), dn = bf16(rows, cols, 24), gain = bf16(1, cols), shift = bf16(1, cols);
    auto mean = f32(rows), rstd = f32(rows);
    x.normal(1, 3), dn.normal(2), mean.normal(3, 0.1), rstd.normal(4), gain.normal(7), shift.normal(8);
    auto in = x.read(), gradient = dn.read(), m = mean.read(), scale = rstd.read(), g = gain.read();
    for (const std::size_t floats : {ColumnPartials::wanted(cols, most_parts), std::size_t{2} * cols}) {
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
        const ColumnPartials scratch{partials.data<float>(), floats, most_parts};
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
    const Buffer partials(ColumnPartials::wanted(cols, most_parts) * sizeof(float));
    const ColumnPartials scratch{partials.data<float>(), ColumnPartials::wanted(cols, most_parts), most_parts};
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
  constexpr std::size_t rows = 6, cols = 1600, part = cols / 4;
  auto whole = bf16(rows, cols, 8), cut = bf16(rows, cols, 8);
  auto losses = f32(rows), cut_losses = f32(rows);
  whole.normal(1, 3), cut.normal(1, 3);
  const std::vector<int> targets{0, 1599, 399, 400, 1000, training::no_target};
  const auto on_gpu = upload(targets);
  const Buffer parts(4 * rows * sizeof(LogitPart));
  cross_entropy(stream(), whole, on_gpu.data<const int>(), 0.25F, losses.data());
  std::vector<Buffer> local;
  for (int r = 0; r < 4; ++r) {
    auto of_part = targets;
    for (auto& target : of_part) {
      if (target == training::no_target) continue;
      target = target / static_cast<int>(part) == r ? target % static_cast<int>(part) : -1;
    }
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
  EXPECT_EQ(losses.read()[rows - 1], 0) << "a row without a target";
  const auto gradient = whole.read();
  EXPECT_TRUE(std::all_of(gradient.end() - cols, gradient.end(), [](double value) { return value == 0; }));
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

}  // namespace
}  // namespace shakedown::cuda
