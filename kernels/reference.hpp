// Known data and the results that must follow from it. This file is the independent reference of every check. Host code
// and CUDA kernels use the same formulas; kernels that duplicate a formula are tested against it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/ops/memory.hpp"

namespace shakedown::reference {

/// Hashes an index to 64 well distributed bits (splitmix64, Steele et al. 2014, public domain constants).
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Copies -------------------------------------------------------------------------------------------------------------

/// Returns word i of a buffer written by rank `source`. The word depends on the position and the writer, so that
/// shifted, repeated and swapped copies are all detected.
constexpr std::uint64_t copy_word(std::uint64_t i, std::uint64_t source) { return mix(i ^ (source << 48)); }

// Streams over memory ------------------------------------------------------------------------------------------------

/// Returns word i of the operation "write". The word is cheap to compute, so that memory bandwidth is the limit, and
/// differs at every position (the factor is odd) and for every writer.
constexpr std::uint64_t written_word(std::uint64_t i, std::uint64_t writer) {
  return (i + (writer << 48)) * 0x9e3779b97f4a7c15ULL;
}

/// Returns element i of an array of numbers: integers below 2^44. With these, scale, add and triad are exact in double
/// with and without fused multiply-add, and a check needs no tolerance.
constexpr double stream_number(std::uint64_t i, std::uint64_t array) {
  return static_cast<double>(mix(i ^ (array << 48)) >> 20);
}
inline constexpr double stream_factor = 3;

// Memory test --------------------------------------------------------------------------------------------------------

/// Returns the mask to invert the words of a walk. Every other walk writes the complement of the pattern: each bit must
/// hold 0 and 1, and a lost write leaves different data. `walk` counts from 1.
constexpr std::uint64_t inversion(std::uint64_t walk) { return walk % 2 == 0 ? ~std::uint64_t{0} : 0; }

/// Returns word i of a pattern. address: its own byte offset, which detects cells that respond to several addresses;
/// complement: the complement of that; alternating: neighbouring bits differ, also between words; random and moving:
/// pseudo-random bits.
constexpr std::uint64_t test_word(TestPattern pattern, std::uint64_t i) {
  switch (pattern) {
    case TestPattern::address: return 8 * i;
    case TestPattern::complement: return ~(8 * i);
    case TestPattern::alternating: return (i & 1) == 0 ? 0xaaaaaaaaaaaaaaaaULL : 0x5555555555555555ULL;
    case TestPattern::random:
    case TestPattern::moving: break;
  }
  return mix(~i);
}

// Collectives --------------------------------------------------------------------------------------------------------

/// The addends of the ranks in a sum: integers that depend on position and rank. The addends are small and sparse
/// enough that no sum exceeds the exact range of the type, in any order of additions. The check therefore needs no
/// tolerance. At each position the values form a cycle over the ranks: every 2^shift-th rank has a value, and these
/// values count through 0 .. 2^bits - 1. Small worlds have bits = 4 and shift = 0: each rank has a value in 0..15.
struct Addends {
  int ranks = 1;
  int bits = 4, shift = 0;
  /// If true, rank r adds scattered(i, r) - scattered(i, r + 1), so that the sum is 0 everywhere and stays 0 when it is
  /// summed again. In-place sums need this, because the output is the next input.
  bool sum_is_zero = false;

  constexpr int at(std::uint64_t i, int r) const {
    return sum_is_zero ? scattered(i, r) - scattered(i, r + 1 == ranks ? 0 : r + 1) : value(i, r);
  }

  /// Returns the sum over all ranks of at(i, r) in constant time: whole cycles plus an incomplete one.
  constexpr std::int64_t sum(std::uint64_t i) const {
    if (sum_is_zero) return 0;
    const int cycle = 1 << (bits + shift), largest = (1 << bits) - 1;
    std::int64_t total = static_cast<std::int64_t>(ranks / cycle) * largest * (largest + 1) / 2;
    const auto first = static_cast<int>(-mix(i) & ((std::uint64_t{1} << shift) - 1));  // the first rank with a value
    for (int r = first; r < ranks % cycle; r += 1 << shift) total += value(i, r);
    return total;
  }

 private:
  /// Returns values at the same ranks as `value`, but pseudo-random ones, because the first and the last rank must
  /// differ.
  constexpr int scattered(std::uint64_t i, int r) const {
    const std::uint64_t rank = static_cast<std::uint64_t>(r);
    if (((mix(i) + rank) & ((std::uint64_t{1} << shift) - 1)) != 0) return 0;
    return static_cast<int>(mix(i ^ (rank << 40)) & ((std::uint64_t{1} << bits) - 1));
  }
  constexpr int value(std::uint64_t i, int r) const {
    const std::uint64_t place = mix(i) + static_cast<std::uint64_t>(r);
    if ((place & ((std::uint64_t{1} << shift) - 1)) != 0) return 0;
    return static_cast<int>((place >> shift) & ((std::uint64_t{1} << bits) - 1));
  }
};

/// Returns addends for `ranks` ranks whose sums, including all partial sums, are at most `max_exact_integer`: 2^24 for
/// f32, 2048 for f16, 256 for bf16 (all integers up to there are representable).
constexpr Addends addends_for(int ranks, std::int64_t max_exact_integer) {
  Addends addends{.ranks = ranks};
  const auto largest_sum = [&addends] {
    const std::int64_t with_value = (static_cast<std::int64_t>(addends.ranks) >> addends.shift) + 1;
    return with_value * ((1 << addends.bits) - 1);
  };
  while (largest_sum() > max_exact_integer) {
    if (addends.bits > 1) {
      --addends.bits;
    } else {
      ++addends.shift;
    }
  }
  return addends;
}

/// Words of a buffer composed of parts of `part` words, one per rank: word j is word first + j % part of rank source +
/// j / part.
struct Parts {
  std::uint64_t part;
  std::uint64_t first = 0, source = 0;

  constexpr std::uint64_t index(std::uint64_t j) const { return first + j % part; }
  constexpr std::uint64_t rank(std::uint64_t j) const { return source + j / part; }
  constexpr std::uint32_t at(std::uint64_t j) const { return static_cast<std::uint32_t>(copy_word(index(j), rank(j))); }
};

// GEMM ---------------------------------------------------------------------------------------------------------------

/// Returns element i of a matrix drawn from a standard normal distribution, by Box-Muller on hashed indices. `stream`
/// distinguishes A from B. The result is a double; the caller rounds it to its own type.
double normal(std::uint64_t i, std::uint64_t stream);

/// Returns +1 or -1 for row or column j. The signs are the vector of Freivalds' check.
constexpr double sign(std::uint64_t j, std::uint64_t stream) { return (mix(j ^ (stream << 40)) & 1) != 0 ? 1.0 : -1.0; }

/// The scale factors of A and B in block-scaled types. There is one value for each block of neighbours along k in each
/// row of A, and the same values for each column of B. Neighbours differ, so that a product that reads them in another
/// order is wrong.
struct BlockScales {
  std::uint64_t blocks;  // number of blocks in a row

  /// Returns the logarithm of a factor to the base 2: 0 or 1.
  static constexpr int exponent(std::uint64_t row, std::uint64_t block) {
    return static_cast<int>(mix((row << 32) + block) & 1);
  }
  static constexpr double factor(std::uint64_t row, std::uint64_t block) { return 1 + exponent(row, block); }

  /// Returns the place of a factor in the order of cuBLASLt (its documentation, "1D Block Scaling Factors Layout"):
  /// tiles of 128 rows by 4 blocks, and in a tile the rows 0, 32, 64 and 96 next to each other, then 1, 33, ...
  constexpr std::uint64_t place(std::uint64_t row, std::uint64_t block) const {
    const auto tile = row / 128 * ((blocks + 3) / 4) + block / 4;
    return tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + block % 4;
  }
};

/// Scale factors of fp8 in f32. Each belongs to 2^row_shift rows of A, or columns of B, by 2^depth_shift elements along
/// k.
struct FloatScales {
  std::uint64_t stream = 0;  // distinguishes A from B; 0 means that all factors are 1
  unsigned row_shift = 0, depth_shift = 0;
  std::uint64_t row_stride = 0, depth_stride = 0;  // distances between factors in memory

  /// Returns the factor of element l of a row: 1 to 2 in steps of 1/128, so that its product with an element is exact
  /// in f32. Neighbours differ, so that a product with factors in another order is wrong.
  constexpr float at(std::uint64_t row, std::uint64_t l) const {
    if (stream == 0) return 1;
    const auto hash = mix((stream << 60) ^ ((row >> row_shift) << 24) ^ (l >> depth_shift));
    return 1 + static_cast<float>(hash & 127) / 128;
  }
  constexpr std::uint64_t place(std::uint64_t row, std::uint64_t l) const {
    return (row >> row_shift) * row_stride + (l >> depth_shift) * depth_stride;
  }
};

/// Returns the largest plausible |c - exact| of one element of a product of zero-mean random matrices. One part is the
/// rounding of the result to a type with unit roundoff u_out. The other is the error of the accumulation in a type with
/// unit roundoff u_acc. With zero mean the partial sums grow like a random walk. The accumulated error then stays near
/// u_acc |a| |b| for any inner dimension (Higham and Mary, SIAM J. Sci. Comput. 42, 2020). With the factor 8, a correct
/// product of 10^9 elements does not fail by chance, and a product in a narrower type (tf32 for f32) does not pass.
/// row_norm = |a| and col_norm = |b| are the 2-norms of the row of A and the column of B.
double gemm_tolerance(double u_out, double u_acc, double exact, double row_norm, double col_norm);

/// Returns the unit roundoff of an fp8 product of inner dimension k whose sum is promoted to f32 every 128 elements, as
/// on Hopper with exact accumulation. Each step of a tensor core is truncated to 13 bits (kernels/cuda/gemm_type.cpp).
/// The errors of the parts are independent, so that of the sum grows with their root, and |a| |b| with their number.
double promoted_fp8_roundoff(int k);

/// Returns the largest |s - exact| of a sum of some summands in any order, each addition rounded to a type with unit
/// roundoff u, as NCCL sums a short type (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 4.2).
/// sizes is the sum of the absolute summands. There are at least two summands, and fewer than 1/u.
double sum_tolerance(int summands, double u, double sizes);

}  // namespace shakedown::reference
