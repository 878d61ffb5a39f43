// A double that may be missing, in 8 bytes. std::optional<double> takes 16, and results of 10,000 GPUs have 13 million
// values. A missing value is stored as one particular NaN, so that any other NaN is still a value.
#pragma once

#include <bit>
#include <compare>
#include <cstdint>
#include <optional>

namespace shakedown {

/// Has the interface of std::optional<double>, and converts from it and to it.
class OptionalDouble {
 public:
  constexpr OptionalDouble() = default;
  constexpr OptionalDouble(std::nullopt_t) {}
  constexpr OptionalDouble(double value) : value_(value) {}
  constexpr OptionalDouble(const std::optional<double>& value) : value_(value ? *value : missing()) {}

  constexpr bool has_value() const { return std::bit_cast<std::uint64_t>(value_) != missing_bits; }
  constexpr explicit operator bool() const { return has_value(); }
  constexpr operator std::optional<double>() const { return has_value() ? std::optional(value_) : std::nullopt; }
  constexpr double operator*() const { return value_; }
  constexpr double& operator*() { return value_; }
  constexpr double value() const { return std::optional<double>(*this).value(); }
  constexpr double value_or(double other) const { return has_value() ? value_ : other; }

  friend constexpr bool operator==(OptionalDouble a, OptionalDouble b) {
    return a.has_value() && b.has_value() ? *a == *b : a.has_value() == b.has_value();
  }
  /// A missing value is less than any other value.
  friend constexpr std::partial_ordering operator<=>(OptionalDouble a, OptionalDouble b) {
    if (a.has_value() && b.has_value()) return *a <=> *b;
    return a.has_value() <=> b.has_value();
  }

 private:
  static constexpr std::uint64_t missing_bits = 0x7ff8'6d69'7373'696e;  // a quiet NaN
  static constexpr double missing() { return std::bit_cast<double>(missing_bits); }

  double value_ = missing();
};

}  // namespace shakedown
