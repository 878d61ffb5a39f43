#include "fixtures/statistics.hpp"

#include <gtest/gtest.h>

namespace shakedown {
namespace {

TEST(Statistics, TheMedianOfAnEvenNumberLiesBetweenTheMiddleTwo) { EXPECT_DOUBLE_EQ(median({4, 1, 3, 2}), 2.5); }

TEST(Statistics, QuantilesInterpolate) {
  EXPECT_DOUBLE_EQ(quantile({1, 2, 3, 4, 5}, 0), 1);
  EXPECT_DOUBLE_EQ(quantile({1, 2, 3, 4, 5}, 1), 5);
  EXPECT_DOUBLE_EQ(quantile({10, 20}, 0.25), 12.5);
}

TEST(Statistics, NothingHasNoQuantile) { EXPECT_THROW(quantile({}, 0.5), std::invalid_argument); }

TEST(Statistics, TheCoefficientOfVariationUsesTheSampleDeviation) {
  EXPECT_DOUBLE_EQ(coefficient_of_variation({1, 3}), std::sqrt(2.0) / 2);
  EXPECT_DOUBLE_EQ(coefficient_of_variation({2, 2, 2}), 0);
}

}  // namespace
}  // namespace shakedown
