// Known data and the results that must come out of it: the independent reference of every check, the same formulas for
// the host and for CUDA kernels (which mirror them and are tested against them).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device.hpp"

namespace shakedown::reference {

/// Mixes an index into 64 well distributed bits (splitmix64, Steele et al. 2014, public domain constants).
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Copies -------------------------------------------------------------------------------------------------------------

/// Word i of a buffer written by rank `source`: depends on the position and on who wrote it, so that a shifted, a
/// repeated and a swapped copy are all seen.
constexpr std::uint64_t copy_word(std::uint64_t i, std::uint64_t source) { return mix(i ^ (source << 48)); }

// Streams over memory ------------------------------------------------------------------------------------------------

/// Word i as the operation "write" writes it: cheap, so that memory sets the pace, and different at every position (the
/// factor is odd) and for every writer.
constexpr std::uint64_t written_word(std::uint64_t i, std::uint64_t writer) {
  return (i + (writer << 48)) * 0x9e3779b97f4a7c15ULL;
}

/// Element i of an array of numbers: whole numbers below 2^44, so that scale, add and triad are exact in double with
/// and without fused multiply-add, and a check needs no tolerance.
constexpr double stream_number(std::uint64_t i, std::uint64_t array) {
  return static_cast<double>(mix(i ^ (array << 48)) >> 20);
}
inline constexpr double stream_factor = 3;

// Memory test --------------------------------------------------------------------------------------------------------

/// Word i of a pattern: its own byte offset, which finds cells that answer to several addresses; the complement, so
/// that each bit has been 0 and 1; neighbouring bits that differ, between words as well; pseudo-random bits.
constexpr std::uint64_t test_word(TestPattern pattern, std::uint64_t i) {
  switch (pattern) {
    case TestPattern::address: return 8 * i;
    case TestPattern::complement: return ~(8 * i);
    case TestPattern::alternating: return (i & 1) == 0 ? 0xaaaaaaaaaaaaaaaaULL : 0x5555555555555555ULL;
    case TestPattern::random: break;
  }
  return mix(~i);
}

// Collectives --------------------------------------------------------------------------------------------------------

/// Element i of rank r's input to a sum: an integer in 0..15 that depends on position and rank. Sums of up to 2^24 / 15
/// ranks are exact in float, so that the check needs no tolerance whatever the order of the additions.
constexpr int addend(std::uint64_t i, int r) { return static_cast<int>((mix(i) + static_cast<std::uint64_t>(r)) & 15); }

/// Sum over ranks 0..n-1 of addend(i, r), in constant time: n / 16 whole cycles of 0 + 1 + ... + 15, and a rest.
constexpr std::int64_t addend_sum(std::uint64_t i, int n) {
  std::int64_t sum = static_cast<std::int64_t>(n / 16) * 120;
  for (int r = 0; r < n % 16; ++r) sum += addend(i, r);
  return sum;
}

// GEMM ---------------------------------------------------------------------------------------------------------------

/// Element i of a matrix drawn from a standard normal distribution, by Box-Muller on hashed indices; `stream` tells A
/// from B. In double; the caller rounds to its own type.
double normal(std::uint64_t i, std::uint64_t stream);

/// +1 or -1 for row or column j: the vector of Freivalds' check.
constexpr double sign(std::uint64_t j, std::uint64_t stream) { return (mix(j ^ (stream << 40)) & 1) != 0 ? 1.0 : -1.0; }

/// Largest believable |c - exact| of one element of a product of zero-mean random matrices: rounding of the result to a
/// type with unit roundoff u_out, plus the accumulation in a type with unit roundoff u_acc. With zero mean the partial
/// sums grow like a random walk and the accumulated error stays near u_acc |a| |b|, whatever the inner dimension
/// (Higham and Mary, SIAM J. Sci. Comput. 42, 2020); the factor 8 keeps a correct product of 10^9 elements from failing
/// by chance, and a product in a narrower type (tf32 for f32) from passing. row_norm = |a| and col_norm = |b| are the
/// 2-norms of the row of A and the column of B.
double gemm_tolerance(double u_out, double u_acc, double exact, double row_norm, double col_norm);

}  // namespace shakedown::reference
