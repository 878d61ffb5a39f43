// Conversions to and from bf16 and 8-bit floats, compared with the value of each code as the specification defines it.
#include "kernels/short_floats.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace shakedown::short_floats_test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();

/// Returns the value of a code by the formulas of OFP8, table 1.
double value_of(int code, Float8 type) {
  const int fraction_bits = type == Float8::e4m3 ? 3 : 2, bias = type == Float8::e4m3 ? 7 : 15;
  const int exponent = (code & 127) >> fraction_bits, steps = 1 << fraction_bits;
  const double fraction = static_cast<double>(code % steps) / steps;
  const double size = exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return code < 128 ? size : -size;
}

/// Returns the finite codes of numbers that are not negative, in the order of their values.
int finite_codes(Float8 type) { return type == Float8::e4m3 ? 0x7f : 0x7c; }

class Floats8 : public testing::TestWithParam<Float8> {};
INSTANTIATE_TEST_SUITE_P(Types, Floats8, testing::Values(Float8::e4m3, Float8::e5m2),
                         [](const auto& type) { return type.param == Float8::e4m3 ? "e4m3" : "e5m2"; });

TEST_P(Floats8, HaveTheValuesOfTheSpecification) {
  for (int size = 0; size < finite_codes(GetParam()); ++size) {
    for (const int code : {size, size + 128}) {
      const float value = from_float8(static_cast<std::uint8_t>(code), GetParam());
      EXPECT_EQ(static_cast<double>(value), value_of(code, GetParam())) << code;
      EXPECT_EQ(to_float8(value, GetParam()), code) << "a value that needs no rounding";
    }
  }
  EXPECT_EQ(value_of(finite_codes(GetParam()) - 1, GetParam()), static_cast<double>(layout_of(GetParam()).largest));
}

TEST_P(Floats8, AreRoundedToTheNearestAndTiesToEven) {
  for (int code = 0; code + 1 < finite_codes(GetParam()); ++code) {
    const double low = value_of(code, GetParam()), high = value_of(code + 1, GetParam());
    const auto middle = static_cast<float>((low + high) / 2);  // exact
    EXPECT_EQ(to_float8(middle, GetParam()), code % 2 == 0 ? code : code + 1) << code;
    EXPECT_EQ(to_float8(std::nextafter(middle, 0.0F), GetParam()), code) << code;
    EXPECT_EQ(to_float8(std::nextafter(middle, infinity), GetParam()), code + 1) << code;
    EXPECT_EQ(to_float8(-std::nextafter(middle, infinity), GetParam()), code + 1 + 128) << code;
  }
}

TEST_P(Floats8, SaturateBeyondTheLargestNumber) {
  const auto largest = layout_of(GetParam()).largest_code;
  for (const float large : {layout_of(GetParam()).largest, layout_of(GetParam()).largest * 1.03F, 1e30F, infinity}) {
    EXPECT_EQ(to_float8(large, GetParam()), largest) << large;
    EXPECT_EQ(to_float8(-large, GetParam()), largest + 128) << large;
  }
}

TEST_P(Floats8, KeepNanAndTheSignOfZero) {
  for (const float value : {nan, -nan, std::bit_cast<float>(0x7f800001U)}) {
    EXPECT_EQ(to_float8(value, GetParam()), float8_nan);
  }
  EXPECT_TRUE(std::isnan(from_float8(float8_nan, GetParam())));
  EXPECT_EQ(to_float8(0.0F, GetParam()), 0);
  EXPECT_EQ(to_float8(-0.0F, GetParam()), 128);
  EXPECT_EQ(to_float8(std::numeric_limits<float>::denorm_min(), GetParam()), 0);
  EXPECT_EQ(std::isinf(from_float8(0x7c, GetParam())), GetParam() == Float8::e5m2);
}

TEST(Bf16, IsTheUpperHalfOfAFloatRoundedToEven) {
  EXPECT_EQ(to_bf16(1.0F), 0x3f80);
  EXPECT_EQ(to_bf16(1 + 0x1p-8F), 0x3f80) << "a tie, to even";
  EXPECT_EQ(to_bf16(1 + 0x3p-8F), 0x3f82) << "a tie, to even";
  EXPECT_EQ(to_bf16(1 + 0x1.1p-8F), 0x3f81);
  EXPECT_EQ(to_bf16(-1 - 0x1.1p-8F), 0xbf81);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()), 0x7f80) << "infinity";
  EXPECT_EQ(to_bf16(infinity), 0x7f80);
  EXPECT_TRUE(std::isnan(from_bf16(to_bf16(std::bit_cast<float>(0x7f800001U)))));
  for (int bits = 0; bits < 0x7f80; ++bits) {
    ASSERT_EQ(to_bf16(from_bf16(static_cast<std::uint16_t>(bits))), bits);
  }
}

}  // namespace
}  // namespace shakedown::short_floats_test
