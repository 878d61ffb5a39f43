// Sums of squares and projections for GPUs whose f64 units are a 64th of their f32 units: in two floats, which together
// have 48 bits. Host code and kernels use the same functions.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace shakedown::training {

/// f32 operations that round once each. A compiler for GPUs would combine a product and a sum otherwise, and the errors
/// that the sums compute would be those of other operations. These functions are templates, because constexpr functions
/// cannot call CUDA's intrinsics. The conditionals remain, because nvcc also refuses a class of intrinsics as a
/// parameter of the sums.
struct Rounded {
  template <class T>
  static constexpr T add(T a, T b) {
#ifdef __CUDA_ARCH__
    return __fadd_rn(a, b);
#else
    return a + b;
#endif
  }
  template <class T>
  static constexpr T subtract(T a, T b) {
    return add(a, -b);
  }
  template <class T>
  static constexpr T multiply(T a, T b) {
#ifdef __CUDA_ARCH__
    return __fmul_rn(a, b);
#else
    return a * b;
#endif
  }
  /// Returns a b - c, rounded once.
  template <class T>
  static constexpr T multiply_subtract(T a, T b, T c) {
#ifdef __CUDA_ARCH__
    return __fmaf_rn(a, b, -c);
#else
    return std::fma(a, b, -c);
#endif
  }
};

/// The unevaluated sum of two floats.
struct TwoFloats {
  float high = 0, low = 0;

  /// Adds a value. The rounding error of the sum is exact (Knuth, The Art of Computer Programming, volume 2, 4.2.2) and
  /// goes to `low`.
  constexpr void add(float value) {
    const float sum = Rounded::add(high, value), added = Rounded::subtract(sum, high);
    const float error =
        Rounded::add(Rounded::subtract(high, Rounded::subtract(sum, added)), Rounded::subtract(value, added));
    high = sum;
    low = Rounded::add(low, error);
  }
  constexpr void add_square(float value) {
    const float square = Rounded::multiply(value, value);
    low = Rounded::add(low, Rounded::multiply_subtract(value, value, square));
    add(square);
  }
  /// Moves the leading bits of `low` to `high`, so that `low` keeps its precision in long sums.
  constexpr void normalize() {
    const float sum = Rounded::add(high, low);
    low = Rounded::subtract(low, Rounded::subtract(sum, high));
    high = sum;
  }
  constexpr double value() const { return static_cast<double>(high) + static_cast<double>(low); }
};

/// The sums of one thread over up to 2^20 values: they differ from f64 sums by at most 2^-38; the check of a sum over
/// ranks allows 2^-19 (step_check.cpp). Values whose squares have no exact error in f32, which a gradient rarely has,
/// infinities and NaN are added in f64, so that any value has the sums that f64 gives it.
class WideSums {
 public:
  /// Adds a value, and to the projection the same value with a sign.
  constexpr void add(float value, float with_sign) {
    if (fits(value)) {
      squares_.add_square(value);
      projection_.add(with_sign);
    } else {
      other_squares_ += static_cast<double>(value) * static_cast<double>(value);
      other_projection_ += static_cast<double>(with_sign);
    }
  }
  /// Called after every four values.
  constexpr void normalize() {
    squares_.normalize();
    projection_.normalize();
  }
  constexpr double squares() const { return squares_.value() + other_squares_; }
  constexpr double projection() const { return projection_.value() + other_projection_; }

  /// True for 0, and for sizes from 2^-50 to 2^44. The error of a smaller square may be below the smallest f32; 2^20 of
  /// the largest squares are below the largest f32.
  static constexpr bool fits(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value) << 1;  // without the sign
    constexpr std::uint32_t min_exponent_bits = (127U - 50U) << 24, end_exponent_bits = (127U + 44U) << 24;
    return bits - min_exponent_bits < end_exponent_bits - min_exponent_bits || bits == 0;
  }

 private:
  TwoFloats squares_, projection_;
  double other_squares_ = 0, other_projection_ = 0;
};

}  // namespace shakedown::training
