// The known data of all checks.
#include "kernels/reference.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace shakedown::reference {
namespace {

TEST(Addend, ItsClosedSumEqualsTheSumOverRanks) {
  for (const int ranks : {1, 2, 3, 15, 16, 17, 64, 1000}) {
    for (std::uint64_t i = 0; i < 100; ++i) {
      std::int64_t sum = 0;
      for (int r = 0; r < ranks; ++r) sum += addend(i, r);
      ASSERT_EQ(addend_sum(i, ranks), sum) << ranks << " ranks, element " << i;
    }
  }
}

TEST(Addend, DiffersBetweenNeighbouringRanks) {
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_NE(addend(i, 0), addend(i, 1));
}

TEST(CopyWord, DependsOnThePositionAndOnTheWriter) {
  EXPECT_NE(copy_word(0, 0), copy_word(1, 0));
  EXPECT_NE(copy_word(7, 0), copy_word(7, 1));
}

TEST(StreamNumber, LeavesSumsAndProductsExact) {
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const double a = stream_number(i, 4), b = stream_number(i, 5);
    EXPECT_NE(a, b);
    EXPECT_LT(a, 0x1p44);
    const auto exact = static_cast<std::uint64_t>(a) + 3 * static_cast<std::uint64_t>(b);
    ASSERT_EQ(a + stream_factor * b, static_cast<double>(exact));
    ASSERT_EQ(static_cast<std::uint64_t>(a + stream_factor * b), exact);
  }
}

TEST(WrittenWord, DependsOnThePositionAndOnTheWriter) {
  EXPECT_NE(written_word(0, 0), written_word(1, 0));
  EXPECT_NE(written_word(7, 0), written_word(7, 1));
}

TEST(Normal, HasMeanZeroAndVarianceOne) {
  constexpr int n = 200000;
  double sum = 0, squares = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    const double x = normal(i, 1);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2.0 / n));
}

TEST(Normal, DiffersBetweenTheMatrices) { EXPECT_NE(normal(3, 1), normal(3, 2)); }

TEST(GemmTolerance, LetsAnF32ProductPassAndNotATf32Product) {
  constexpr int k = 2048;
  double exact = 0, row = 0, column = 0, tf32 = 0;
  float f32 = 0;
  const auto cut = [](double x) { return static_cast<double>(std::round(x * 1024) / 1024); };  // about 10 bits near 1
  for (std::uint64_t l = 0; l < k; ++l) {
    const auto a = static_cast<float>(normal(l, 1)), b = static_cast<float>(normal(l, 2));
    exact += static_cast<double>(a) * b;
    f32 += a * b;
    tf32 += cut(a) * cut(b);
    row += static_cast<double>(a) * a;
    column += static_cast<double>(b) * b;
  }
  const double limit = gemm_tolerance(0x1p-24, 0x1p-24, exact, std::sqrt(row), std::sqrt(column));
  EXPECT_LE(std::abs(f32 - exact), limit);
  EXPECT_GT(std::abs(tf32 - exact), limit);
}

}  // namespace
}  // namespace shakedown::reference
