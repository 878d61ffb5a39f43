// Tile products and page reads of every SM: healthy GPUs pass, and a fault that is planted in one SM names it.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "kernels/cuda/tile_product.hpp"
#include "kernels/ops/sm.hpp"
#include "tests/kernels/cuda/faulty_sm.hpp"
#include "tests/kernels/cuda/on_gpu.hpp"

namespace shakedown::cuda {
namespace {

TEST(TilePlaces, OfAllThreadsCoverTheTileOnce) {
  std::set<std::pair<unsigned, unsigned>> places;
  for (unsigned thread = 0; thread < block_threads; ++thread) {
    for (unsigned word = 0; word < tile_words / block_threads; ++word) {
      const auto [row, column] = tile_place(thread, word);
      EXPECT_LT(row, tile_m);
      EXPECT_LT(column, tile_n);
      places.emplace(row, column);
    }
  }
  EXPECT_EQ(places.size(), tile_words);
}

TEST(TileProductSums, AreExactInAnyOrderOfTheChunks) {
  for (const int depth : {deep_slab_columns, shallow_slab_columns}) {
    const auto shape = tile_shape(depth);
    EXPECT_EQ(shape.slabs_of_tile() * depth * depth / TileShape::chunk, shape.k);
    for (int tile = 0; tile < TileShape::slabs; ++tile) {
      EXPECT_EQ(expected_tile(shape, tile).size(), tile_words);
    }
  }
}

/// The fault of the next launches; a launch has no argument for it.
FaultySm planted{};

void launch_planted(const TileRun& run, int depth, unsigned blocks, cudaStream_t stream) {
  check(launch_faulty_tiles(run, depth, blocks, stream, planted));
}

class SmProducts : public OnGpu {
 protected:
  std::map<std::string, double> metrics_of(Work& work) {
    const auto found = work.metrics();
    return {found.begin(), found.end()};
  }
};

TEST_F(SmProducts, OfAHealthyGpuAreAllCorrectAndAllCompared) {
  const auto work = device_->prepare(TileProductSpec{.products = 16});
  work->connect(group_);
  work->reset();
  EXPECT_FALSE(work->verify().passed()) << "nothing was computed";
  work->stage(3);
  const double seconds = device_->seconds(*work, 3);
  const auto check = work->verify();
  EXPECT_TRUE(check.passed()) << check.first;
  EXPECT_EQ(check.compared, static_cast<std::size_t>(gpu_->multiprocessors()) * 16 * 4) << "one runs before the others";
  const auto metrics = metrics_of(*work);
  EXPECT_EQ(metrics.at("sms"), gpu_->multiprocessors());
  EXPECT_EQ(metrics.at("share_checked"), 1);
  EXPECT_FALSE(metrics.contains("wrong_sm"));
  std::printf("%.0f TFLOPS, %.0f products/s on each SM\n", 3 * work->cost().flops / seconds / 1e12, 48 / seconds);
  work->corrupt();
  EXPECT_FALSE(work->verify().passed());
}

TEST_F(SmProducts, NameTheSmWithAPlantedFaultAtTheStatedProbability) {
  const int sms = gpu_->multiprocessors();
  for (const double rate : {1e-2, 1e-3}) {
    int named = 0, accused = 0, expected = 0;
    constexpr int trials = 20, products = 1024;
    const auto begin = std::chrono::steady_clock::now();
    const auto work = make_tile_products(TileProductSpec{.products = products}, *gpu_, launch_planted);
    for (int trial = 0; trial < trials; ++trial) {
      planted = {static_cast<unsigned>(trial * 37 % sms), static_cast<float>(rate),
                 static_cast<unsigned long long>(trial) << 32};
      bool strikes = false;
      for (unsigned long long p = 0; p < products; ++p) strikes = strikes || planted.strikes(p);
      expected += strikes ? 1 : 0;
      work->reset();
      work->enqueue();
      const auto check = work->verify();
      const auto metrics = metrics_of(*work);
      if (!metrics.contains("wrong_sm")) continue;
      (metrics.at("wrong_sm") == planted.sm ? named : accused) += 1;
      EXPECT_NE(check.first.find("SM " + std::to_string(planted.sm) + " has "), std::string::npos) << check.first;
      if (trial == 1) std::printf("%s\n", check.first.c_str());
    }
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    std::printf(
        "rate %g: named %d of %d planted that struck (%d trials of %d products, %.2f s), %d others accused; 1 - "
        "exp(-rate n) = %.3f\n",
        rate, named, expected, trials, products, spent.count(), accused, 1 - std::exp(-rate * products));
    EXPECT_EQ(named, expected);
    EXPECT_EQ(accused, 0);
  }
}

TEST_F(SmProducts, WithTheSameFaultOnEverySmNameNone) {
  planted = {FaultySm::every, 1, 1};
  const auto work = make_tile_products(TileProductSpec{.products = 2}, *gpu_, launch_planted);
  work->enqueue();
  const auto check = work->verify();
  EXPECT_FALSE(check.passed());
  EXPECT_NE(check.first.find("so no SM is named"), std::string::npos) << check.first;
  EXPECT_FALSE(metrics_of(*work).contains("wrong_sm"));
}

TEST_F(SmProducts, ThatDidNotRunAreMissed) {
  const auto work = make_tile_products(TileProductSpec{.products = 2}, *gpu_,
                                       [](const TileRun& run, int depth, unsigned blocks, cudaStream_t stream) {
                                         check(launch_faulty_tiles(run, depth, blocks - 1, stream, FaultySm{}));
                                       });
  work->enqueue();
  const auto check = work->verify();
  EXPECT_FALSE(check.passed());
  EXPECT_NE(check.first.find("were skipped"), std::string::npos) << check.first;
}

TEST_F(SmProducts, PagesAreReadByEverySmAndAWrongPageIsNamed) {
  const auto work = device_->prepare(PageReadSpec{std::size_t{64} << 20});
  work->connect(group_);
  work->reset();
  EXPECT_FALSE(work->verify().passed()) << "nothing was read";
  work->stage(2);
  const double seconds = device_->seconds(*work, 2);
  const auto check = work->verify();
  EXPECT_TRUE(check.passed()) << check.first;
  EXPECT_EQ(check.compared, static_cast<std::size_t>(gpu_->multiprocessors()) * 32 * 3);
  std::printf("%.0f GB/s read by all SMs\n", 2 * work->cost().bytes / seconds / 1e9);
  work->corrupt();
  const auto corrupted = work->verify();
  EXPECT_FALSE(corrupted.passed());
  EXPECT_NE(corrupted.first.find("pages that most SMs read wrong: 16 at 0x"), std::string::npos) << corrupted.first;
}

}  // namespace
}  // namespace shakedown::cuda
