// Sums in two floats against sums in f64: of the values of one thread, and in the check of a sum over ranks.
#include "kernels/transformer/wide_sums.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/reference.hpp"
#include "kernels/transformer/ops.hpp"

namespace shakedown::training::wide_sums_test {
namespace {

constexpr double bound = 0x1p-38;  // relative

struct Totals {
  double squares = 0, projection = 0;
};

/// Returns the sums of values as a thread of the GPU adds them, from index `first` on.
Totals in_two_floats(const std::vector<float>& values, std::size_t first = 0) {
  WideSums sums;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sums.add(values[i], is_negative(signs_from(first + i)) ? -values[i] : values[i]);
    if (i % 4 == 3) sums.normalize();
  }
  return {sums.squares(), sums.projection()};
}

Totals in_f64(const std::vector<float>& values, std::size_t first = 0) {
  Totals sums;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    sums.squares += value * value;
    sums.projection += is_negative(signs_from(first + i)) ? -value : value;
  }
  return sums;
}

std::vector<double> normals(std::size_t count, std::uint64_t stream) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = reference::normal(i, stream);
  return values;
}

std::vector<float> scaled(const std::vector<double>& values, std::size_t count, double scale) {
  std::vector<float> some(count);
  for (std::size_t i = 0; i < count; ++i) some[i] = static_cast<float>(scale * values[i]);
  return some;
}

/// A thread has at most 2^20 values; 30,000 of 7.6 billion gradients.
TEST(WideSums, AreThoseOfF64InAnyRange) {
  const auto drawn = normals(std::size_t{1} << 20, 3);
  for (const double scale : {1.0, 1e-8, 1e-14, 1e-16, 1e-30, 1e-42, 1e6, 1e13, 1e20, 1e37}) {
    for (const std::size_t count : {std::size_t{4}, std::size_t{30000}, std::size_t{1} << 20}) {
      const auto values = scaled(drawn, count, scale);
      const auto want = in_f64(values), got = in_two_floats(values);
      const double size = std::sqrt(want.squares * static_cast<double>(count));
      EXPECT_NEAR(got.squares, want.squares, bound * want.squares) << scale << " " << count;
      EXPECT_NEAR(got.projection, want.projection, bound * size) << scale << " " << count;
    }
  }
}

/// f32 alone would lose small values after a large one, and a sum that cancels.
TEST(WideSums, KeepWhatF32Loses) {
  std::vector<float> values(100000, 1e-3F);
  values.front() = 1e4F;
  const auto got = in_two_floats(values);
  EXPECT_NEAR(got.squares, 1e8 + 99999 * std::pow(static_cast<double>(1e-3F), 2), bound * 1e8);
  float plain = 0;
  for (const float value : values) plain += value * value;
  EXPECT_EQ(plain, 1e8F) << "f32 alone";
  TwoFloats sum;
  for (int i = 0; i < 1000; ++i) {
    for (const float value : {1e8F, 1.0F, -1e8F, 0x1p-20F}) sum.add(value);
    sum.normalize();
  }
  EXPECT_DOUBLE_EQ(sum.value(), 1000 * (1 + 0x1p-20));
}

TEST(WideSums, OfValuesThatAreNotFiniteAreNotFinite) {
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_FALSE(std::isfinite(in_two_floats({1, bad, 2, 3}).squares));
    EXPECT_FALSE(std::isfinite(in_two_floats({1, bad, 2, 3}).projection));
  }
  const float most = std::numeric_limits<float>::max(), least = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(in_two_floats({most, most, 0, 1}).squares, in_f64({most, most, 0, 1}).squares) << "no overflow";
  EXPECT_EQ(in_two_floats({least, 0, 0, 0}).squares, in_f64({least, 0, 0, 0}).squares) << "no underflow";
  EXPECT_EQ(in_two_floats({0, -0.0F, 0, 0}).squares, 0);
}

TEST(WideSums, TakeF64OnlyWhereF32HasNoExactError) {
  for (const float value : {0.0F, -0.0F, 1.0F, -1.0F, 0x1p-50F, -0x1p-50F, 0x1.fffffep43F}) {
    EXPECT_TRUE(WideSums::fits(value)) << value;
    const float square = value * value;
    EXPECT_EQ(static_cast<double>(square) + static_cast<double>(std::fma(value, value, -square)),
              static_cast<double>(value) * static_cast<double>(value));
  }
  for (const float value : {0x1.fffffep-51F, 0x1p44F, -0x1p44F, 0x1p-149F, HUGE_VALF, std::nanf("")}) {
    EXPECT_FALSE(WideSums::fits(value)) << value;
  }
}

/// Several ranks whose gradients are summed: the projection of the sum is the sum of the projections within the bound
/// of the check (2e-6 times the size), whichever way it is computed, and a wrong sign exceeds it.
TEST(WideSums, PassAndFailTheCheckOfASumOverRanksAsF64Does) {
  constexpr int ranks = 4;
  constexpr std::size_t count = 40000;
  std::vector<std::vector<float>> gradients;
  std::vector<float> reduced(count, 0.0F);
  for (int r = 0; r < ranks; ++r) {
    gradients.push_back(scaled(normals(count, 10 + static_cast<std::uint64_t>(r)), count, 1e-6));
    for (std::size_t i = 0; i < count; ++i) reduced[i] += gradients.back()[i];
  }
  double expected = 0, size = 0, expected_f64 = 0;
  for (const auto& gradient : gradients) {
    expected += in_two_floats(gradient).projection;
    expected_f64 += in_f64(gradient).projection;
    size += std::sqrt(in_two_floats(gradient).squares);
  }
  const double tolerance = 2 * 1e-6 * std::sqrt(ranks) * size;
  EXPECT_NEAR(expected, expected_f64, 1e-5 * tolerance) << "the sums take a hundred-thousandth of the bound";
  EXPECT_LE(std::abs(in_two_floats(reduced).projection - expected), tolerance);
  for (std::size_t i = 0; i < count; ++i) reduced[i] -= 2 * gradients[2][i];
  EXPECT_GT(std::abs(in_two_floats(reduced).projection - expected), tolerance);
}

}  // namespace
}  // namespace shakedown::training::wide_sums_test
