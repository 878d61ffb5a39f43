// Outcome of a data check, and who collects it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <sstream>
#include <string>

namespace shakedown {

/// Outcome of a data check. Nothing compared is a failed check.
struct Check {
  std::size_t compared = 0;
  std::size_t mismatched = 0;
  std::string first;  // where, got, expected; empty when nothing is wrong
  bool passed() const { return compared > 0 && mismatched == 0; }
};

/// Sums 64 bits times an odd factor that differs from place to place, modulo 2^64: no change of one word, and so of no
/// one bit, leaves it as it was.
inline std::uint64_t digest_of(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; 8 * i < bytes.size(); ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + 8 * i, std::min<std::size_t>(8, bytes.size() - 8 * i));
    sum += word * (2 * i + 1);
  }
  return sum;
}
inline constexpr std::size_t most_digested = std::size_t{256} << 20;

/// Collects the comparisons of one check: how many, how many were wrong, and where the first one was.
class Checker {
 public:
  template <class T>
  void expect_equal(std::size_t index, T got, T want) {
    expect(got == want, index, got, want);
  }

  /// NaN never agrees.
  void expect_near(std::size_t index, double got, double want, double tolerance) {
    const double distance = got > want ? got - want : want - got;
    expect(distance <= tolerance, index, got, want);
  }

  const Check& result() const { return check_; }

 private:
  template <class T>
  void expect(bool agrees, std::size_t index, T got, T want) {
    ++check_.compared;
    if (agrees) return;
    if (check_.mismatched++ > 0) return;
    std::ostringstream text;
    text.precision(9);  // tells a float from its neighbours
    text << "element " << index << " is " << got << ", expected " << want;
    check_.first = text.str();
  }

  Check check_;
};

}  // namespace shakedown
