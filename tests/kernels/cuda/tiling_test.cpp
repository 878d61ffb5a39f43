// The tiles of algorithms that stored runs have chosen. They need cuBLASLt, but no GPU.
#include "kernels/cuda/tiling.hpp"

#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>
#include <string>

#include "kernels/cuda/gemm_plan.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown::cuda {
namespace {

/// Returns the tiling of a stored choice for a column-major product of these sizes, on 132 multiprocessors.
std::optional<ProductTiling> tiling_of_stored(const std::string& choice, std::uint64_t m, std::uint64_t n,
                                              std::uint64_t k) {
  const auto candidate = candidate_from(choice);
  if (!candidate) return std::nullopt;
  MatmulShape shape{};
  shape.a = {CUDA_R_16BF, m, k, m};
  shape.d = {CUDA_R_16BF, m, n, m};
  return tiling_of(candidate->algorithm, shape, 132);
}

Results stored(const std::string& file) {
  return read_results(SHAKEDOWN_SOURCE_DIR "/ci/baselines/h100-sxm/1ranks/" + file);
}

TEST(TilingTest, OfAStoredGemmIsThatOfItsRow) {
  const auto results = stored("1/gemm.json");
  const std::string key = "gemm/dtype:bf16/m:4096/n:4096/k:4096";
  const auto tiling = tiling_of_stored(results.context.algorithms.at(key), 4096, 4096, 4096);
  ASSERT_TRUE(tiling);
  EXPECT_EQ(*tiling, (ProductTiling{.rows = 4096,
                                    .columns = 4096,
                                    .terms = 4096,
                                    .tile_rows = 256,
                                    .tile_columns = 128,
                                    .cluster_rows = 1,
                                    .cluster_columns = 2,
                                    .stage_terms = 64,
                                    .stages = 0,
                                    .split = 1,
                                    .multiprocessors = 132}));
  EXPECT_NEAR(tiling->waves(), 512. / 132, 1e-12);
}

/// cublasDgemm does not report its algorithm.
TEST(TilingTest, IsKnownForEveryAlgorithmOfTheStoredSteps) {
  int products = 0, split = 0;
  for (int launch = 1; launch <= 9; ++launch) {
    for (const auto& [key, choice] : stored(std::to_string(launch) + "/lora_step.json").context.algorithms) {
      std::uint64_t rows = 0, columns = 0, terms = 0;
      if (std::sscanf(key.c_str(), "product %" SCNu64 " x %" SCNu64 " x %" SCNu64, &rows, &columns, &terms) != 3)
        continue;
      const auto tiling = tiling_of_stored(choice, columns, rows, terms);
      ASSERT_TRUE(tiling) << key;
      EXPECT_GE(tiling->tile_rows * tiling->tile_columns, 1024U) << key;
      EXPECT_LE(tiling->tile_rows * tiling->tile_columns, 65536U) << key << ": 65,536 sums fill the registers";
      EXPECT_LE(tiling->cluster_rows * tiling->cluster_columns, 16U) << key;
      EXPECT_GT(tiling->last_wave_percent(), 0) << key;
      EXPECT_LE(tiling->last_wave_percent(), 100) << key;
      ++products;
      split += tiling->split > 1 ? 1 : 0;
    }
  }
  EXPECT_GE(products, 9 * 20);
  EXPECT_GE(split, 9) << "sums of thin products are split";
}

TEST(TilingTest, IsUnknownWithoutATile) {
  MatmulAlgorithm none{};
  MatmulShape shape{};
  EXPECT_FALSE(tiling_of(none, shape, 132));
}

}  // namespace
}  // namespace shakedown::cuda
