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

TEST(GemmTolerance, GrowsWithTheSquareRootOfTheInnerDimension) {
  EXPECT_DOUBLE_EQ(gemm_tolerance(400, 0, 1e-7, 0, 1, 1) / gemm_tolerance(100, 0, 1e-7, 0, 1, 1), 2);
}

}  // namespace
}  // namespace shakedown::reference
