// Tests the table of matrix products.
#include "report/products.hpp"

#include <gtest/gtest.h>

#include "base/archive.hpp"
#include "tests/thresholds/results_builder.hpp"

namespace shakedown::products_test {
namespace {

using testing_support::ResultsBuilder;

// 3584 columns of Qwen2-7B on an H200: 896 blocks are 6 full waves of 132 and one of 104.
const ProductTiling down{.rows = 8192,
                         .columns = 3584,
                         .terms = 19008,
                         .tile_rows = 256,
                         .tile_columns = 128,
                         .cluster_rows = 2,
                         .stage_terms = 64,
                         .multiprocessors = 132};

TEST(ProductTiling, CountsWavesAndTheFillOfTheLast) {
  EXPECT_EQ(down.blocks(), 896);
  EXPECT_NEAR(down.waves(), 6.788, 0.001);
  EXPECT_NEAR(down.last_wave_percent(), 100. * 104 / 132, 1e-9);
  auto full = down;
  full.multiprocessors = 128;
  EXPECT_EQ(full.waves(), 7);
  EXPECT_EQ(full.last_wave_percent(), 100);
}

TEST(ProductTiling, CountsBlocksThatCompleteACluster) {
  auto tiling = down;
  tiling.rows = 256 * 5;  // 3 clusters of 2
  EXPECT_EQ(tiling.blocks(), 6 * 28);
}

TEST(ProductTiling, CountsEachPartOfASplitSum) {
  auto tiling = down;
  tiling.split = 3;
  EXPECT_EQ(tiling.blocks(), 3 * 896);
}

TEST(ProductTiling, OfTheTransposedProductHasAsManyBlocks) {
  EXPECT_EQ(down.transposed().tile_columns, 256U);
  EXPECT_EQ(down.transposed().blocks(), 896);
  EXPECT_EQ(down.transposed().transposed(), down);
}

TEST(ProductTiling, IsReadAsItWasWritten) {
  const auto document = Writer::written(down);
  EXPECT_NEAR(document["waves"].get<double>(), 6.788, 0.001);
  ResultsBuilder builder;
  auto results = builder.add("gemm/dtype:bf16/m:8192/n:8192/k:8192", "tflops", 800).results();
  results.context.products = {{"product", down}};
  const auto context = unpacked<Context>(packed(results.context), "a rank");
  EXPECT_EQ(context.products, results.context.products);
}

TEST(Products, AreListedWithTheMostOperationsFirst) {
  auto small = down;
  small.terms = 64;
  small.split = 2;
  small.stages = 4;
  Results results;
  results.context.products = {{"product a", small}, {"product b", down}};
  EXPECT_EQ(products_text({results}, {}),
            "product    tile     cluster  stages     split  waves  last wave\n"
            "product b  256x128  2x1      64 x auto  1      6.79   79 %\n"
            "product a  256x128  2x1      64 x 4     2      13.58  58 %\n"
            "\n");
}

TEST(Products, OfARunWithoutThemAreNoTable) { EXPECT_EQ(products_text({Results{}}, {}), ""); }

}  // namespace
}  // namespace shakedown::products_test
