// Random numbers that depend only on a seed and on names, so that any value can be computed without the values before
// it.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace shakedown::rehearsal {

/// A stream of numbers (SplitMix64: Steele, Lea and Flood, OOPSLA 2014). The sequence of numbers is the same on every
/// machine. The distributions of <random> are not used, because they depend on the standard library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  /// Returns a number above 0 and below 1.
  double uniform() { return (static_cast<double>(next() >> 11) + 0.5) * 0x1p-53; }

  /// Returns a normal number (Box and Muller, 1958).
  double normal() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

  /// Returns a number of Student's t distribution with this number of degrees of freedom; of the normal distribution if
  /// it is 0.
  double tailed(int freedom) {
    const double value = normal();
    if (freedom == 0) return value;
    double squares = 0;
    for (int i = 0; i < freedom; ++i) {
      const double other = normal();
      squares += other * other;
    }
    return value / std::sqrt(squares / freedom);
  }

 private:
  std::uint64_t state_;
};

/// Returns the FNV-1a hash of a name.
constexpr std::uint64_t hash(std::string_view name) {
  std::uint64_t value = 0xcbf29ce484222325;
  for (const char c : name) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return value;
}

/// Returns a separate seed for each part.
inline std::uint64_t mixed(std::uint64_t seed, std::uint64_t part) {
  return Random(seed ^ (part * 0xd1342543de82ef95)).next();
}

}  // namespace shakedown::rehearsal
