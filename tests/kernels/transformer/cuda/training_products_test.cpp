// Products of a training step on the GPU: every layout, with tuning and with remembered algorithms.
#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/transformer/cuda/products.hpp"
#include "tests/kernels/transformer/cuda/training_on_gpu.hpp"

namespace shakedown::cuda {
namespace {

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
    DeviceMatrix<Out> c(*gpu_, rows, cols, 32), d(*gpu_, rows, cols, 32);
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
    const std::size_t more = tuned ? 8 : 0;  // different plans
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

/// Products with a long inner dimension and few elements are split if that is faster.
TEST_F(CudaProducts, ThatAreThinAreRightAfterTuningAndGiveTheSameBitsTwice) {
  constexpr std::size_t rows = 264, cols = 64, inner = 4096;
  auto a = bf16(inner, rows, 8), b = bf16(inner, cols, 8), x = bf16(rows, inner, 8);
  DeviceMatrix<float> d(*gpu_, rows, cols, 0);
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

TEST_F(CudaProducts, AreTunedByTheRankThatOwnsThem) {
  auto a = bf16(256, 512, 8), b = bf16(512, 512, 8), d = bf16(256, 512, 8);
  a.normal(1), b.normal(2);
  const training::Gemm<Bf16, Bf16> plain{.d = d, .a = a, .b = b},
      transposed{.d = d, .a = a, .b = b, .b_transposed = true};
  products_->start_tuning({}, {.rank = 1, .ranks = 2});
  products_->multiply(plain);
  products_->multiply(transposed);
  std::vector<int> owners;
  for (const auto& [shape, plan] : products_->plans()) owners.push_back(plan.owner);
  std::sort(owners.begin(), owners.end());
  EXPECT_EQ(owners, (std::vector{0, 1}));
  Choices chosen;
  EXPECT_TRUE(products_->finish_tuning(group_, &chosen));
  EXPECT_EQ(chosen.size(), 2U);
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
  // Each product has a single turn, so that tuning may choose differently by chance. If the choices are equal, the bits
  // must be too.
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

}  // namespace
}  // namespace shakedown::cuda
