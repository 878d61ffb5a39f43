// The outcome of a data check, and a class that collects it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <sstream>
#include <string>

namespace shakedown {

/// Outcome of a data check. A check that compared nothing has failed.
struct Check {
  std::size_t compared = 0;
  std::size_t mismatched = 0;
  std::string first;  // position, actual and expected value of the first mismatch; empty if there is none
  bool passed() const { return compared > 0 && mismatched == 0; }
};

/// Returns a hash of 16 bytes and their position. Each of the two words is mixed with the position; their 128-bit
/// product is folded by XOR (as in wyhash, Wang Yi, public domain). A change goes unnoticed with probability 2^-64.
/// Equal changes at two positions do not cancel.
constexpr std::uint64_t digest_of_vector(std::uint64_t x, std::uint64_t y, std::uint64_t place) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(x ^ ((2 * place + 1) * 0x9e3779b97f4a7c15ULL)) *
                       (y ^ ((2 * place + 1) * 0xd6e8feb86659fd93ULL));
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

/// Returns the sum of digest_of_vector over all vectors of 16 bytes, modulo 2^64; it does not depend on the order. The
/// last vector is padded with zeros. For a part of a larger buffer, `first` is the index of its first vector there; the
/// digests of all parts add up to the digest of the whole.
inline std::uint64_t digest_of(std::span<const std::byte> bytes, std::uint64_t first = 0) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; 16 * i < bytes.size(); ++i) {
    std::uint64_t words[2] = {};
    std::memcpy(words, bytes.data() + 16 * i, std::min<std::size_t>(16, bytes.size() - 16 * i));
    sum += digest_of_vector(words[0], words[1], first + i);
  }
  return sum;
}
inline constexpr std::size_t max_digested_bytes = std::size_t{1} << 30;

/// Collects the comparisons of one check: their number, the number of mismatches, and the position of the first
/// mismatch.
class Checker {
 public:
  template <class T>
  void expect_equal(std::size_t index, T got, T want) {
    expect(got == want, index, got, want);
  }

  /// A NaN always counts as a mismatch.
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
    text.precision(9);  // enough digits to distinguish neighbouring floats
    text << "element " << index << " is " << got << ", expected " << want;
    check_.first = text.str();
  }

  Check check_;
};

}  // namespace shakedown
