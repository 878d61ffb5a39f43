#include "kernels/reference.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace shakedown::reference {

double normal(std::uint64_t i, std::uint64_t stream) {
  constexpr double scale = 1.0 / 9007199254740992.0;  // 2^-53
  const std::uint64_t bits = mix(i ^ (stream << 56));
  const double u = (static_cast<double>(mix(bits) >> 11) + 0.5) * scale;
  const double v = static_cast<double>(mix(bits + 1) >> 11) * scale;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

double gemm_tolerance(double u_out, double u_acc, double exact, double row_norm, double col_norm) {
  return u_out * std::abs(exact) + 8.0 * u_acc * row_norm * col_norm;
}

double promoted_fp8_roundoff(int k) {
  constexpr double of_part = 0x1p-13, least = 0x1p-16, part = 128;
  return std::max(least, of_part / std::sqrt(std::max(1.0, k / part)));
}

double sum_tolerance(int summands, double u, double sizes) {
  const double rounded = (summands - 1) * u;
  return rounded / (1 - rounded) * sizes;
}

}  // namespace shakedown::reference
