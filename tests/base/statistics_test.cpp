// The statistics against values that can be counted by hand or found in published tables.
#include "base/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <stdexcept>

namespace shakedown::statistics_test {
namespace {

TEST(Statistics, TheMedianOfAnEvenNumberLiesBetweenTheMiddleTwo) {
  EXPECT_DOUBLE_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_DOUBLE_EQ(median({7}), 7);
}

TEST(Statistics, QuantilesInterpolate) {
  EXPECT_DOUBLE_EQ(quantile({5, 2, 4, 3, 1}, 0), 1);
  EXPECT_DOUBLE_EQ(quantile({1, 4, 3, 2, 5}, 1), 5);
  EXPECT_DOUBLE_EQ(quantile({20, 10}, 0.25), 12.5);
}

TEST(Statistics, NothingHasNoQuantile) { EXPECT_THROW(quantile({}, 0.5), std::invalid_argument); }

TEST(Statistics, TheCoefficientOfVariationUsesTheSampleDeviation) {
  EXPECT_DOUBLE_EQ(coefficient_of_variation({1, 3}), std::sqrt(2.0) / 2);
  EXPECT_DOUBLE_EQ(coefficient_of_variation({2, 2, 2}), 0);
}

TEST(Statistics, OneWildValueHardlyMovesTheRobustSigma) {
  EXPECT_NEAR(robust_sigma({1, 2, 3, 4, 5}), 1.4826, 1e-12);
  EXPECT_NEAR(robust_sigma({1, 2, 3, 4, 1e9}), 1.4826, 1e-12);
  EXPECT_DOUBLE_EQ(robust_sigma({3, 3, 3, 9}), 0);
}

TEST(Statistics, NormalQuantilesAreThoseOfTheTables) {
  EXPECT_NEAR(normal_quantile(0.975), 1.959964, 1e-6);
  EXPECT_NEAR(normal_quantile(1e-6), -4.753424, 1e-6);
  EXPECT_NEAR(normal_cdf(normal_quantile(0.3)), 0.3, 1e-12);
  EXPECT_THROW(normal_quantile(1), std::invalid_argument);
  EXPECT_NEAR(bonferroni_z(600000, 0.01), 5.523, 0.001) << "10,000 GPUs x 60 benchmarks";
}

TEST(MannWhitney, CountsExactlyWithoutTies) {
  const MannWhitney apart = mann_whitney_u({1, 2, 3}, {4, 5, 6});
  EXPECT_DOUBLE_EQ(apart.u, 9);
  EXPECT_NEAR(apart.p_greater, 1.0 / 20, 1e-12);
  EXPECT_NEAR(apart.p_less, 1, 1e-12);
  EXPECT_NEAR(mann_whitney_u({4, 5, 6}, {1, 2, 3}).p_less, 1.0 / 20, 1e-12);
  // U >= 5 is true for {3,5} and {4,5}, among the 10 ways to choose 2 of 5.
  EXPECT_NEAR(mann_whitney_u({1, 2, 4}, {3, 5}).p_greater, 0.2, 1e-12);
  EXPECT_NEAR(smallest_p(9, 9), 1.0 / 48620, 1e-18);
}

TEST(MannWhitney, HasTheCriticalValuesOfTheTables) {
  // Mann and Whitney: n = m = 9, one-sided 5 %: U <= 21; one-sided 1 %: U <= 14.
  const auto p_of = [](double u) {
    std::vector<double> x, y;
    for (int i = 0; i < 9; ++i) x.push_back(i);
    for (int i = 0; i < 9; ++i) y.push_back(-100 + i);
    // Raise values of y above some of x until U equals u.
    for (auto it = y.rbegin(); u > 0; ++it) {
      const double over = std::min(9.0, u);
      *it = over - 0.5 + static_cast<double>(it - y.rbegin()) * -1e-3;
      u -= over;
    }
    return mann_whitney_u(x, y).p_less;
  };
  EXPECT_LE(p_of(21), 0.05);
  EXPECT_GT(p_of(22), 0.05);
  EXPECT_LE(p_of(14), 0.01);
  EXPECT_GT(p_of(15), 0.01);
}

TEST(MannWhitney, CountsExactlyWithTies) {
  EXPECT_DOUBLE_EQ(mann_whitney_u({5, 5, 5}, {5, 5, 5}).p_less, 1) << "all equal";
  // Ranks 1.5 1.5 3 4: the sum 7 is the largest of the 6 ways to choose 2 for y.
  EXPECT_NEAR(mann_whitney_u({1, 1}, {2, 3}).p_greater, 1.0 / 6, 1e-12);
  EXPECT_NEAR(mann_whitney_u({1, 1, 1, 1}, {2, 2, 2, 2}).p_greater, 1.0 / 70, 1e-12);
  EXPECT_DOUBLE_EQ(mann_whitney_u({1, 2}, {2, 3}).u, 3.5);
}

TEST(MannWhitney, GoesOverIntoTheNormalApproximation) {
  std::vector<double> x, y;
  for (int i = 0; i < 26; ++i) {
    x.push_back(i);
    y.push_back(i + 6.5);
  }
  const double approximate = mann_whitney_u(x, y).p_greater;
  x.pop_back();
  y.pop_back();
  EXPECT_NEAR(approximate / mann_whitney_u(x, y).p_greater, 1, 0.35);
  EXPECT_EQ(mann_whitney_u({}, {1, 2}).p_less, 1);
}

TEST(MannWhitney, RaisesFalseAlarmsAsOftenAsItSays) {
  std::mt19937 random(7);
  std::student_t_distribution<double> noise(3);
  int alarms = 0;
  constexpr int trials = 4000;
  for (int i = 0; i < trials; ++i) {
    std::vector<double> x(9), y(9);
    for (double& value : x) value = noise(random);
    for (double& value : y) value = noise(random);
    alarms += mann_whitney_u(x, y).p_less <= 0.05 ? 1 : 0;
  }
  EXPECT_LT(alarms, 0.06 * trials);
  EXPECT_GT(alarms, 0.03 * trials);
}

TEST(HodgesLehmann, IsTheMedianOfAllDifferences) {
  EXPECT_DOUBLE_EQ(hodges_lehmann({1, 2, 3}, {11, 12, 13}, 0.95).estimate, 10);
  EXPECT_DOUBLE_EQ(hodges_lehmann({0}, {5, 7}, 0.95).estimate, 6);
}

TEST(HodgesLehmann, HasNoBoundsWhereTheValuesAreTooFew) {
  EXPECT_FALSE(hodges_lehmann({1}, {2}, 0.95).low);
  EXPECT_FALSE(hodges_lehmann({1, 2}, {1, 2}, 0.95).low);
  const HodgesLehmann three = hodges_lehmann({1, 2, 3}, {11, 12, 14}, 0.95);
  EXPECT_DOUBLE_EQ(*three.low, 8) << "1 of 20 orders: the smallest difference";
  EXPECT_DOUBLE_EQ(*three.high, 13);
}

TEST(HodgesLehmann, HoldsTheTruthAsOftenAsItSays) {
  std::mt19937 random(11);
  std::normal_distribution<double> noise;
  int misses = 0;
  constexpr int trials = 2000;
  for (int i = 0; i < trials; ++i) {
    std::vector<double> x(9), y(9);
    for (double& value : x) value = noise(random);
    for (double& value : y) value = noise(random) + 1;
    misses += *hodges_lehmann(x, y, 0.95).low > 1 ? 1 : 0;
  }
  EXPECT_LT(misses, 0.065 * trials);
  EXPECT_GT(misses, 0.03 * trials);
}

TEST(Rejected, AreAllUpToTheLargestThatIsItsShareOfTheRate) {
  EXPECT_EQ(benjamini_hochberg({0.04, 0.001, 0.03}, 0.05), (std::vector<bool>{true, true, true}))
      << "0.04 <= 0.05 * 3/3";
  EXPECT_EQ(benjamini_hochberg({0.06, 0.001, 0.04}, 0.05), (std::vector<bool>{false, true, false}))
      << "0.04 > 0.05 * 2/3";
  EXPECT_EQ(benjamini_hochberg({0.02, 0.5, 0.5}, 0.05), (std::vector<bool>{false, false, false}))
      << "alone, it pays for all";
  EXPECT_TRUE(benjamini_hochberg({}, 0.05).empty());
}

TEST(ValuesNeeded, GrowWithNoiseAndWithComparisons) {
  EXPECT_EQ(sample_size(0.02, 0, 0.01, 0.95), 5u) << "1/C(10,5) = 0.004 is the first below 0.01";
  EXPECT_EQ(sample_size(0.02, 0.0001, 0.01 / 150, 0.95), 9u) << "1/C(18,9) = 2.1e-5";
  EXPECT_GT(sample_size(0.02, 0.03, 0.01, 0.95), sample_size(0.02, 0.02, 0.01, 0.95));
  EXPECT_GT(sample_size(0.02, 0.02, 1e-5, 0.95), sample_size(0.02, 0.02, 0.01, 0.95));
}

TEST(ValuesNeeded, ReachThePowerTheyPromise) {
  constexpr double effect = 0.02;
  for (const auto& [sigma, alpha] : {std::pair{0.02, 0.001}, {0.01, 0.001}, {0.01, 0.0001}, {0.007, 0.0001}}) {
    const std::size_t n = sample_size(effect, sigma, alpha, 0.95);
    std::mt19937 random(3);
    std::normal_distribution<double> noise(0, sigma);
    int seen = 0;
    constexpr int trials = 400;
    for (int i = 0; i < trials; ++i) {
      std::vector<double> x(n), y(n);
      for (double& value : x) value = noise(random);
      for (double& value : y) value = noise(random) - effect;
      seen += mann_whitney_u(x, y).p_less <= alpha ? 1 : 0;
    }
    EXPECT_GT(seen, 0.9 * trials) << n << " values on each side, sigma " << sigma << ", alpha " << alpha;
  }
}

TEST(TheilSen, TakesTheMedianOfAllSlopesAndIsNotMovedByAQuarterOfWildValues) {
  std::vector<double> x, y;
  for (int i = 0; i < 20; ++i) {
    x.push_back(i);
    y.push_back(3 + 0.5 * i + (i % 2 == 0 ? 0.1 : -0.1) + (i % 5 == 4 ? 100 * (i % 2 == 0 ? 1 : -1) : 0));
  }
  const auto trend = theil_sen(x, y, 0.975);
  EXPECT_NEAR(trend.slope, 0.5, 0.05);
  ASSERT_TRUE(trend.low && trend.high);
  EXPECT_LE(*trend.low, 0.5);
  EXPECT_GE(*trend.high, 0.5);
}

TEST(TheilSen, ItsIntervalHoldsTheSlopeAsOftenAsItSays) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  int inside = 0;
  constexpr int tries = 400;
  for (int i = 0; i < tries; ++i) {
    std::vector<double> x, y;
    for (int j = 0; j < 24; ++j) {
      x.push_back(j);
      y.push_back(0.1 * j + normal(random));
    }
    const auto trend = theil_sen(x, y, 0.975);
    inside += *trend.low <= 0.1 && 0.1 <= *trend.high ? 1 : 0;
  }
  EXPECT_GE(inside, tries * 92 / 100);
  EXPECT_LE(inside, tries * 98 / 100);
}

TEST(TheilSen, HasNoIntervalOfAFewValues) {
  EXPECT_EQ(theil_sen({0, 1, 2, 3}, {0, 1, 2, 3}, 0.975).low, std::nullopt);
  EXPECT_DOUBLE_EQ(theil_sen({0, 1, 2, 3}, {0, 1, 2, 3}, 0.975).slope, 1);
}

}  // namespace
}  // namespace shakedown::statistics_test
