// The known data of all checks.
#include "kernels/reference.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <vector>

#include "kernels/gemm_scales.hpp"
#include "kernels/short_floats.hpp"

namespace shakedown::reference::reference_test {
namespace {

constexpr std::int64_t exact_f32 = 1 << 24, exact_f16 = 1 << 11, exact_bf16 = 1 << 8;

TEST(Addends, TheirClosedSumIsTheSumOverRanksAndExact) {
  for (const auto limit : {exact_f32, exact_f16, exact_bf16}) {
    for (const int ranks : {1, 2, 3, 15, 16, 17, 64, 1000, 10000}) {
      const auto addends = addends_for(ranks, limit);
      for (std::uint64_t i = 0; i < 100; ++i) {
        std::int64_t sum = 0;
        for (int r = 0; r < ranks; ++r) {
          ASSERT_GE(addends.at(i, r), 0);
          sum += addends.at(i, r);
        }
        ASSERT_EQ(addends.sum(i), sum) << ranks << " ranks, element " << i;
        ASSERT_LE(sum, limit);
      }
    }
  }
}

TEST(Addends, AreZeroInSumWhereASumInPlaceIsSummedAgain) {
  for (const auto limit : {exact_f32, exact_bf16}) {
    for (const int ranks : {2, 3, 4, 17, 100}) {
      auto addends = addends_for(ranks, limit);
      addends.sum_is_zero = true;
      std::vector<int> zeros(static_cast<std::size_t>(ranks));
      for (std::uint64_t i = 0; i < 100; ++i) {
        std::int64_t sum = 0, positive = 0;
        for (int r = 0; r < ranks; ++r) {
          sum += addends.at(i, r);
          positive += std::max(0, addends.at(i, r));
          zeros[static_cast<std::size_t>(r)] += addends.at(i, r) == 0 ? 1 : 0;
        }
        ASSERT_EQ(sum, 0);
        ASSERT_EQ(addends.sum(i), 0);
        ASSERT_LE(positive, limit) << "a part of the ranks has an inexact sum";
      }
      // Otherwise a sum that did not run would look correct on that rank.
      EXPECT_LT(*std::max_element(zeros.begin(), zeros.end()), 80) << ranks << " ranks";
    }
  }
}

TEST(Addends, DifferBetweenNeighbouringRanks) {
  const auto addends = addends_for(8, exact_bf16);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_NE(addends.at(i, 0), addends.at(i, 1));
}

TEST(Addends, UseSixteenValuesWhereverTheTypeAllows) {
  EXPECT_EQ(addends_for(8, exact_bf16).bits, 4);
  EXPECT_EQ(addends_for(8, exact_bf16).shift, 0);
  EXPECT_EQ(addends_for(64, exact_bf16).shift, 0);
  EXPECT_GT(addends_for(10000, exact_bf16).shift, 0);
  EXPECT_EQ(addends_for(10000, exact_f32).bits, 4);
}

TEST(Parts, SayWhichWordOfWhomLiesWhere) {
  const Parts parts{10, 30, 2};  // the data that rank 3 gets from ranks 2, 3, ... if each sends 10 words to each
  EXPECT_EQ(parts.index(0), 30u);
  EXPECT_EQ(parts.rank(9), 2u);
  EXPECT_EQ(parts.index(25), 35u);
  EXPECT_EQ(parts.rank(25), 4u);
  EXPECT_EQ(parts.at(25), static_cast<std::uint32_t>(copy_word(35, 4)));
}

TEST(CopyWord, DependsOnThePositionAndOnTheWriter) {
  EXPECT_NE(copy_word(0, 0), copy_word(1, 0));
  EXPECT_NE(copy_word(7, 0), copy_word(7, 1));
}

TEST(StreamNumber, LeavesSumsAndProductsExact) {
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const double a = stream_number(i, 4), b = stream_number(i, 5);
    EXPECT_NE(a, b);
    EXPECT_LT(a, 0x1p44);
    const auto exact = static_cast<std::uint64_t>(a) + 3 * static_cast<std::uint64_t>(b);
    ASSERT_EQ(a + stream_factor * b, static_cast<double>(exact));
    ASSERT_EQ(static_cast<std::uint64_t>(a + stream_factor * b), exact);
  }
}

TEST(WrittenWord, DependsOnThePositionAndOnTheWriter) {
  EXPECT_NE(written_word(0, 0), written_word(1, 0));
  EXPECT_NE(written_word(7, 0), written_word(7, 1));
}

TEST(Normal, HasMeanZeroAndVarianceOne) {
  constexpr int n = 200000;
  double sum = 0, squares = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    const double x = normal(i, 1);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2.0 / n));
}

TEST(Normal, DiffersBetweenTheMatrices) { EXPECT_NE(normal(3, 1), normal(3, 2)); }

TEST(BlockScales, AreInTheOrderThatCublasLtDocuments) {
  const BlockScales scales{8};  // two tiles of four blocks
  // One tile: 16 bytes for each of 32 rows, of which 4 belong to each of the rows r, r + 32, r + 64 and r + 96.
  EXPECT_EQ(scales.place(0, 0), 0U);
  EXPECT_EQ(scales.place(0, 3), 3U);
  EXPECT_EQ(scales.place(32, 0), 4U);
  EXPECT_EQ(scales.place(96, 3), 15U);
  EXPECT_EQ(scales.place(1, 0), 16U);
  EXPECT_EQ(scales.place(127, 3), 511U);
  EXPECT_EQ(scales.place(0, 4), 512U) << "the next tile along k";
  EXPECT_EQ(scales.place(128, 0), 1024U) << "the next tile of rows";
}

TEST(BlockScales, HaveAPlaceEach) {
  const BlockScales scales{7};  // the second tile of a row of tiles is not full
  std::set<std::uint64_t> places;
  for (std::uint64_t row = 0; row < 300; ++row) {
    for (std::uint64_t block = 0; block < scales.blocks; ++block) places.insert(scales.place(row, block));
  }
  EXPECT_EQ(places.size(), 300U * 7U);
  EXPECT_LT(*places.rbegin(), 3U * 2U * 512U) << "rounded to whole tiles";
}

/// A product that ignores the scale factors, or reads them row by row or by the transposed tile, is wrong.
TEST(BlockScales, OfAnotherOrderGiveAnotherProduct) {
  constexpr std::uint64_t rows = 128, block = 32;
  const BlockScales scales{64};
  std::vector<double> stored(rows * scales.blocks);
  for (std::uint64_t r = 0; r < rows; ++r) {
    for (std::uint64_t b = 0; b < scales.blocks; ++b) stored[scales.place(r, b)] = BlockScales::factor(r, b);
  }
  const auto product = [&](std::uint64_t i, std::uint64_t j, const auto& factor) {
    double sum = 0;
    for (std::uint64_t l = 0; l < block * scales.blocks; ++l) {
      const auto k = block * scales.blocks;
      sum += normal(i * k + l, 1) * normal(j * k + l, 2) * factor(i, l / block) * factor(j, l / block);
    }
    return sum;
  };
  const auto right = [](std::uint64_t r, std::uint64_t b) { return BlockScales::factor(r, b); };
  const auto by_rows = [&](std::uint64_t r, std::uint64_t b) { return stored[r * scales.blocks + b]; };
  const auto swapped = [&](std::uint64_t r, std::uint64_t b) { return stored[b / 4 * 512 + r * 4 + b % 4]; };
  const auto none = [](std::uint64_t, std::uint64_t) { return 1.0; };
  const auto tiled = [&](std::uint64_t r, std::uint64_t b) { return stored[scales.place(r, b)]; };
  const double want = product(5, 77, right), k = block * static_cast<double>(scales.blocks);
  const double limit = gemm_tolerance(0x1p-8, 0x1p-22, want, 1.6 * std::sqrt(k), 1.6 * std::sqrt(k));
  EXPECT_EQ(product(5, 77, tiled), want);
  EXPECT_GT(std::abs(product(5, 77, by_rows) - want), 10 * limit);
  EXPECT_GT(std::abs(product(5, 77, swapped) - want), 10 * limit);
  EXPECT_GT(std::abs(product(5, 77, none) - want), 10 * limit);
}

TEST(GemmScales, OfRowsAreOneVectorForAAndOneForB) {
  GemmSpec spec{DType::fp8_e4m3, 100, 36, 300};
  spec.scaling = Scaling::row;
  const auto scales = gemm_scales(spec);
  EXPECT_EQ(scales.b_begin, 128U) << "aligned to 256 bytes";
  EXPECT_EQ(scales.count, 128U + 36U);
  for (const std::uint64_t l : {0, 127, 128, 299}) {
    EXPECT_EQ(scales.a.place(99, l), 99U);
    EXPECT_EQ(scales.b.place(35, l), 35U);
    EXPECT_EQ(scales.a.at(99, l), scales.a.at(99, 0));
  }
}

TEST(GemmScales, OfBlocksAreInTheOrderThatCublasLtDocuments) {
  GemmSpec spec{DType::fp8_e4m3, 100, 200, 700};  // 6 blocks along k, rounded to 8 for B
  spec.scaling = Scaling::block128;
  const auto scales = gemm_scales(spec);
  EXPECT_EQ(scales.a.place(7, 127), 7U) << "M-major";
  EXPECT_EQ(scales.a.place(7, 128), 107U);
  EXPECT_EQ(scales.b.place(127, 699), 5U) << "K-major";
  EXPECT_EQ(scales.b.place(128, 0), 8U);
  EXPECT_EQ(scales.b_begin, 640U);
  EXPECT_EQ(scales.count, 640U + 16U);
  EXPECT_EQ(scales.b.at(0, 0), scales.b.at(127, 127)) << "one factor for the whole block";
}

TEST(GemmScales, OfNeighboursAndOfBothMatricesDiffer) {
  GemmSpec spec{DType::fp8_e4m3, 1024, 1024, 1024};
  spec.scaling = Scaling::block128;
  const auto scales = gemm_scales(spec);
  int same_as_next_row = 0, same_as_next_block = 0, same_in_b = 0;
  for (std::uint64_t row = 0; row < 1000; ++row) {
    const float factor = scales.a.at(row, 0);
    EXPECT_GE(factor, 1);
    EXPECT_LT(factor, 2);
    same_as_next_row += factor == scales.a.at(row + 1, 0) ? 1 : 0;
    same_as_next_block += factor == scales.a.at(row, 128) ? 1 : 0;
    same_in_b += factor == scales.b.at(row * 128, 0) ? 1 : 0;
  }
  for (const int same : {same_as_next_row, same_as_next_block, same_in_b}) EXPECT_LT(same, 30) << "8 by chance";
}

TEST(GemmScales, AreForFp8Alone) {
  GemmSpec spec{DType::bf16, 16, 16, 16};
  EXPECT_EQ(gemm_scales(spec).count, 0U);
  EXPECT_EQ(gemm_scales(spec).a.at(3, 200), 1);
  spec.scaling = Scaling::row;
  EXPECT_THROW(gemm_scales(spec), std::invalid_argument);
}

TEST(GemmTolerance, LetsAnF32ProductPassAndNotATf32Product) {
  constexpr int k = 2048;
  double exact = 0, row = 0, column = 0, tf32 = 0;
  float f32 = 0;
  const auto cut = [](double x) { return static_cast<double>(std::round(x * 1024) / 1024); };  // about 10 bits near 1
  for (std::uint64_t l = 0; l < k; ++l) {
    const auto a = static_cast<float>(normal(l, 1)), b = static_cast<float>(normal(l, 2));
    exact += static_cast<double>(a) * b;
    f32 += a * b;
    tf32 += cut(a) * cut(b);
    row += static_cast<double>(a) * a;
    column += static_cast<double>(b) * b;
  }
  const double limit = gemm_tolerance(0x1p-24, 0x1p-24, exact, std::sqrt(row), std::sqrt(column));
  EXPECT_LE(std::abs(f32 - exact), limit);
  EXPECT_GT(std::abs(tf32 - exact), limit);
}

/// Returns the sum of a step of 32 products and of the sum before, in which a tensor core of Hopper truncates each term
/// to 13 bits of fraction of the largest one.
double truncated_step(const std::vector<double>& products, std::size_t first, double sum) {
  const std::size_t end = std::min(first + 32, products.size());
  double largest = std::abs(sum);
  for (std::size_t i = first; i < end; ++i) largest = std::max(largest, std::abs(products[i]));
  if (largest == 0) return 0;
  const double ulp = std::ldexp(1.0, std::ilogb(largest) - 13);
  double units = std::trunc(sum / ulp);
  for (std::size_t i = first; i < end; ++i) units += std::trunc(products[i] / ulp);
  return units * ulp;
}

/// Random values as row factors map them to e4m3, and their 2-norm.
struct Fp8Row {
  std::vector<double> values;
  double norm = 0;
};
Fp8Row fp8_row(std::uint64_t stream, std::size_t k) {
  Fp8Row row{std::vector<double>(k)};
  double largest = 0, squares = 0;
  for (std::size_t i = 0; i < k; ++i) largest = std::max(largest, std::abs(row.values[i] = normal(i, stream)));
  for (double& value : row.values) {
    const auto scaled = static_cast<float>(448 * value / largest);
    value = static_cast<double>(from_float8(to_float8(scaled, Float8::e4m3), Float8::e4m3));
    squares += value * value;
  }
  row.norm = std::sqrt(squares);
  return row;
}

TEST(GemmTolerance, LetsAnFp8SumPassThatIsPromotedToF32) {
  for (const std::size_t k : {16U, 64U, 128U, 512U, 4096U}) {
    double largest = 0;
    for (std::uint64_t i = 0; i < 500; ++i) {
      const auto a = fp8_row(2 * i, k), b = fp8_row(2 * i + 1, k);
      std::vector<double> products(k);
      double exact = 0, part = 0;
      float promoted = 0;
      for (std::size_t l = 0; l < k; ++l) exact += products[l] = a.values[l] * b.values[l];
      for (std::size_t l = 0; l < k; l += 32) {
        part = truncated_step(products, l, part);
        if (l % 128 != 96 && l + 32 < k) continue;
        promoted += static_cast<float>(part);
        part = 0;
      }
      const double limit = gemm_tolerance(0x1p-24, promoted_fp8_roundoff(static_cast<int>(k)), exact, a.norm, b.norm);
      largest = std::max(largest, std::abs(static_cast<double>(promoted) - exact) / limit);
    }
    EXPECT_LT(largest, 0.5) << "k " << k;
    EXPECT_GT(largest, 0.01) << "k " << k << ": the limit finds nothing";
  }
}

TEST(SumTolerance, LetsSumsPassThatAreRoundedToBf16AfterEachRank) {
  constexpr double u = 0x1p-8;
  for (const int ranks : {2, 4, 8}) {
    double largest = 0;  // error, in parts of the tolerance
    for (std::uint64_t i = 0; i < 200000; ++i) {
      double exact = 0, sizes = 0;
      float sum = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const float summand = from_bf16(to_bf16(static_cast<float>(normal(i, static_cast<std::uint64_t>(rank)))));
        exact += static_cast<double>(summand);
        sizes += std::abs(static_cast<double>(summand));
        sum = from_bf16(to_bf16(sum + summand));
      }
      largest = std::max(largest, std::abs(static_cast<double>(sum) - exact) / sum_tolerance(ranks, u, sizes));
    }
    EXPECT_LE(largest, 1) << ranks << " ranks";
    EXPECT_GT(largest, 0.4) << ranks << " ranks: a tighter limit would do";
  }
  EXPECT_EQ(sum_tolerance(4, 0, 10), 0) << "an exact sum";
}

}  // namespace
}  // namespace shakedown::reference::reference_test
