// bf16 and the two 8-bit floats of "OCP 8-bit Floating Point Specification (OFP8)", 2023, on the host. Conversions
// round to nearest, ties to even, as those of a GPU do.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace shakedown {

enum class Float8 { e4m3, e5m2 };

struct Float8Layout {
  int fraction_bits, bias;
  float largest;  // finite number
  std::uint8_t largest_code;
};
constexpr Float8Layout layout_of(Float8 type) {
  return type == Float8::e4m3 ? Float8Layout{3, 7, 448, 0x7e} : Float8Layout{2, 15, 57344, 0x7b};
}

inline constexpr std::uint8_t float8_nan = 0x7f;  // what a GPU writes for each NaN

namespace detail {

constexpr float power_of_2(int exponent) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(127 + exponent) << 23);
}

}  // namespace detail

/// Rounds a number to 8 bits. Numbers beyond the largest one, infinity included, become the largest one.
constexpr std::uint8_t to_float8(float value, Float8 type) {
  const auto [fraction_bits, bias, largest, largest_code] = layout_of(type);
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint8_t>(bits >> 24 & 0x80U);
  const std::uint32_t size_bits = bits & 0x7fffffffU;
  if (size_bits > 0x7f800000U) return float8_nan;
  const float size = std::bit_cast<float>(size_bits);
  if (size >= largest) return static_cast<std::uint8_t>(sign | largest_code);
  const int least = 1 - bias, exponent = static_cast<int>(size_bits >> 23) - 127;
  const int used = exponent < least ? least : exponent;  // subnormal numbers have the smallest exponent
  const float units = size * detail::power_of_2(fraction_bits - used);
  auto whole = static_cast<int>(units);
  const float rest = units - static_cast<float>(whole);
  if (rest > 0.5F || (rest == 0.5F && whole % 2 == 1)) ++whole;  // a carry increments the exponent
  return static_cast<std::uint8_t>(sign | (((used - least) << fraction_bits) + whole));
}

constexpr float from_float8(std::uint8_t code, Float8 type) {
  const auto [fraction_bits, bias, largest, largest_code] = layout_of(type);
  const int size = code & 0x7f, fraction = size & ((1 << fraction_bits) - 1), exponent = size >> fraction_bits;
  const float sign = (code & 0x80) != 0 ? -1.0F : 1.0F;
  if (size > largest_code) {
    const bool is_infinity = type == Float8::e5m2 && fraction == 0;
    return is_infinity ? sign * std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  }
  const int units = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
  return sign * static_cast<float>(units) * detail::power_of_2((exponent == 0 ? 1 : exponent) - bias - fraction_bits);
}

/// Rounds a number to the upper 16 bits of an f32. A NaN remains a NaN.
constexpr std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return 0x7fff;
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

constexpr float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

}  // namespace shakedown
