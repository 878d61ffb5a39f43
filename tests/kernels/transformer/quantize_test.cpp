// Quantization on the host: each 8-bit float is compared with all others, and each factor with its definition.
#include "kernels/transformer/quantize.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace shakedown::training::quantize_test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();

using Values = std::vector<float>;
using Codes = std::vector<std::uint8_t>;

Matrix<const float> one_row(const Values& x) { return {x.data(), 1, x.size(), x.size()}; }

struct Row {
  Codes codes;
  float scale = nan;
};

Row quantized_row(const Values& x, Float8 type) {
  Row row{Codes(x.size(), 0xaa)};
  quantize_rows(one_row(x), type, {row.codes.data(), 1, x.size(), x.size()}, &row.scale);
  return row;
}

/// Returns the least distance of a finite 8-bit float from the value.
double least_distance(double value, Float8 type) {
  double least = HUGE_VAL;
  for (int code = 0; code < 256; ++code) {
    const auto number = static_cast<double>(from_float8(static_cast<std::uint8_t>(code), type));
    if (std::isfinite(number)) least = std::min(least, std::abs(number - value));
  }
  return least;
}

class Quantization : public testing::TestWithParam<Float8> {
 protected:
  static float largest() { return layout_of(GetParam()).largest; }
};
INSTANTIATE_TEST_SUITE_P(Types, Quantization, testing::Values(Float8::e4m3, Float8::e5m2),
                         [](const auto& type) { return type.param == Float8::e4m3 ? "e4m3" : "e5m2"; });

TEST_P(Quantization, OfARowUsesTheWholeRangeAndRoundsToTheNearest) {
  Values x(300);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(0.02 * reference::normal(i, 7));
  x[123] = -0.25F;
  const auto [codes, scale] = quantized_row(x, GetParam());
  EXPECT_FLOAT_EQ(scale, 0.25F / largest());
  EXPECT_EQ(from_float8(codes[123], GetParam()), -largest());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double want = static_cast<double>(x[i]) / static_cast<double>(scale);
    const auto got = static_cast<double>(from_float8(codes[i], GetParam()));
    EXPECT_NEAR(std::abs(got - want), least_distance(want, GetParam()), 1e-6 * std::abs(want)) << i;
  }
}

TEST_P(Quantization, OfZerosIsZeroWithAFactorOfOne) {
  const auto [codes, scale] = quantized_row({0, -0.0F, 0, 0}, GetParam());
  EXPECT_EQ(scale, 1);
  EXPECT_EQ(codes, (Codes{0, 128, 0, 0}));
}

TEST_P(Quantization, OfTheLargestAndOfSubnormalNumbersIsFinite) {
  const float most = std::numeric_limits<float>::max(), least = std::numeric_limits<float>::denorm_min();
  const auto large = quantized_row({most, -most / 2, 1}, GetParam());
  EXPECT_EQ(large.codes[0], layout_of(GetParam()).largest_code);
  EXPECT_EQ(from_float8(large.codes[1], GetParam()), -largest() / 2);
  EXPECT_EQ(large.codes[2], 0);
  const auto small = quantized_row({least, 0x1p-127F, -0x1p-126F}, GetParam());
  EXPECT_EQ(small.scale, 0x1p-126F) << "the inverse of a smaller factor would be infinite";
  EXPECT_EQ(from_float8(small.codes[1], GetParam()), 0.5F);
  EXPECT_EQ(from_float8(small.codes[2], GetParam()), -1.0F);
}

TEST_P(Quantization, KeepsNanAndMakesInfinityNan) {
  const auto [codes, scale] = quantized_row({nan, 2, infinity, -1, -infinity}, GetParam());
  EXPECT_FLOAT_EQ(scale, 2 / largest()) << "the factor of the finite numbers";
  EXPECT_EQ(codes[0], float8_nan);
  EXPECT_EQ(codes[2], float8_nan);
  EXPECT_EQ(codes[4], float8_nan);
  EXPECT_EQ(from_float8(codes[1], GetParam()), largest());
  EXPECT_EQ(from_float8(codes[3], GetParam()), -largest() / 2);
}

TEST_P(Quantization, RespectsStrides) {
  const Values x{1, 2, 99, 3, 4, 99};
  Codes codes(8, 0xaa);
  Values scales(2);
  quantize_rows(Matrix<const float>{x.data(), 2, 2, 3}, GetParam(), {codes.data(), 2, 2, 4}, scales.data());
  EXPECT_FLOAT_EQ(scales[0], 2 / largest());
  EXPECT_FLOAT_EQ(scales[1], 4 / largest());
  for (const std::size_t untouched : {2, 3, 6, 7}) EXPECT_EQ(codes[untouched], 0xaa);
}

TEST_P(Quantization, OfColumnsIsThatOfRowsTurned) {
  constexpr std::size_t rows = 5, cols = 3, stride = 4;
  Values x(rows * stride), turned(cols * rows);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(reference::normal(i, 5));
  for (std::size_t i = 0; i < turned.size(); ++i) turned[i] = x[i % rows * stride + i / rows];
  Codes got(cols * rows), want(cols * rows);
  Values got_scales(cols), want_scales(cols);
  quantize_transposed(Matrix<const float>{x.data(), rows, cols, stride}, GetParam(), {got.data(), cols, rows, rows},
                      got_scales.data());
  quantize_rows(Matrix<const float>{turned.data(), cols, rows, rows}, GetParam(), {want.data(), cols, rows, rows},
                want_scales.data());
  EXPECT_EQ(got, want);
  EXPECT_EQ(got_scales, want_scales);
}

TEST_P(Quantization, OfBlocksTakesTheSmallestPowerOfTwoThatSuffices) {
  for (const float size : {1.0F, 447.0F, 448.0F, 449.0F, 57344.0F, 57345.0F, 1e-30F, 3e38F}) {
    const auto code = block_scale(size, GetParam());
    const double factor = std::ldexp(1.0, code - 127);
    // The quotient is rounded to f32 before.
    EXPECT_LE(static_cast<double>(size), factor * static_cast<double>(largest()) * (1 + 0x1p-23)) << size;
    EXPECT_GT(static_cast<double>(size), factor / 2 * static_cast<double>(largest())) << size;
    EXPECT_EQ(static_cast<double>(block_inverse(code)), 1 / factor);
  }
  EXPECT_EQ(block_scale(0, GetParam()), 0) << "2^-127, the smallest one";
  EXPECT_EQ(block_scale(std::numeric_limits<float>::denorm_min(), GetParam()), 0);
}

TEST_P(Quantization, OfBlocksWritesFactorsInTheOrderOfCublasLt) {
  constexpr std::size_t rows = 130, cols = 5 * scale_block;
  Values x(rows * cols);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(std::exp2(i % 61) * reference::normal(i, 3));
  Codes codes(rows * cols), scales(2 * 2 * 512, 0xaa);
  quantize_blocks(Matrix<const float>{x.data(), rows, cols, cols}, GetParam(), {codes.data(), rows, cols, cols},
                  scales.data());
  const reference::BlockScales order{5};
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t b = 0; b < 5; ++b) {
      const std::size_t first = r * cols + b * scale_block;
      float most = 0;
      for (std::size_t c = 0; c < scale_block; ++c) most = std::max(most, std::abs(x[first + c]));
      const auto code = scales[order.place(r, b)];
      ASSERT_EQ(code, block_scale(most, GetParam())) << r << ", " << b;
      const double factor = std::ldexp(1.0, code - 127);
      for (std::size_t c = 0; c < scale_block; ++c) {
        const double want = static_cast<double>(x[first + c]) / factor;
        const auto got = static_cast<double>(from_float8(codes[first + c], GetParam()));
        ASSERT_NEAR(std::abs(got - want), least_distance(want, GetParam()), 1e-6 * std::abs(want));
      }
    }
  }
}

}  // namespace
}  // namespace shakedown::training::quantize_test
