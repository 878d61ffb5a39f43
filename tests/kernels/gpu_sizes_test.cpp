// Sizes that follow from a GPU's properties: on H100 and H200 those that were constants before, and elsewhere sizes
// that fit.
#include "kernels/gpu_sizes.hpp"

#include <gtest/gtest.h>

#include <tuple>

namespace shakedown::gpu_sizes_test {
namespace {

/// Returns the properties as CUDA states them: clocks in MHz, the bus in bits.
constexpr GpuProperties gpu(int multiprocessors, double clock, double memory_clock, double bus) {
  return {multiprocessors, 1e6 * clock, 2e6 * memory_clock * bus / 8};
}
constexpr auto h100 = gpu(132, 1980, 2619, 5120), h200 = gpu(132, 1980, 3201, 6144);
constexpr auto b200 = gpu(148, 1965, 3996, 8192), a100 = gpu(108, 1410, 1593, 5120), l40s = gpu(142, 2520, 9001, 384);
constexpr auto h20 = gpu(78, 1980, 2619, 6144);

TEST(GpuSizes, AreTheConstantsThatH100AndH200Had) {
  for (const auto& each : {h100, h200}) {
    EXPECT_NEAR(clearing_rate(each), 190e9, 0.1e9);
    EXPECT_NEAR(loaded_walk_rate(each), 2.5e12, 1e9);
    EXPECT_EQ(column_parts(each.multiprocessors), 528U);
    EXPECT_EQ(logit_rows(3584, each.multiprocessors), 3584U);
  }
  // bf16 of 8192 cubed, from the fastest burst of an H200 to the slowest product at the power limit.
  for (const double tflops : {804.0, 790.0, 700.0, 665.0, 600.0}) {
    EXPECT_DOUBLE_EQ(loaded_product_seconds(2 * 8192.0 * 8192 * 8192 / (tflops * 1e12)), 2e-3) << tflops;
  }
}

TEST(GpuSizes, NeverAssumeMoreThanTheMemoryOfAnotherGpuCan) {
  for (const auto& each : {b200, a100, l40s, h20}) {
    EXPECT_LE(clearing_rate(each), each.memory_bytes_per_s / 16);
    EXPECT_LE(loaded_walk_rate(each), 0.75 * each.memory_bytes_per_s);
  }
  EXPECT_NEAR(clearing_rate(b200), 189e9, 1e9) << "the engine limits it";
  EXPECT_NEAR(clearing_rate(l40s), 54e9, 1e9) << "the memory limits it: 48 GB take 0.9 s";
  EXPECT_NEAR(loaded_walk_rate(h20), 1.48e12, 1e10) << "its few multiprocessors limit it";
  const GpuProperties unknown{.multiprocessors = 64};
  EXPECT_GT(clearing_rate(unknown), 0);
  EXPECT_LT(clearing_rate(unknown), clearing_rate(a100)) << "waits longer";
}

TEST(GpuSizes, F64IsSlowOnGpusForGraphicsAndOnB300) {
  for (const auto& [major, minor, ratio] : {std::tuple{8, 0, 2}, {9, 0, 2}, {10, 0, 2}}) {
    EXPECT_EQ(f64_of(major, minor, ratio), F64::fast) << major << "." << minor;
  }
  for (const auto& [major, minor, ratio] : {std::tuple{7, 5, 32}, {8, 6, 64}, {8, 9, 64}, {10, 3, 64}, {12, 0, 64}}) {
    EXPECT_EQ(f64_of(major, minor, ratio), F64::slow) << major << "." << minor;
  }
  EXPECT_EQ(f64_of(10, 3, 0), F64::slow) << "the driver does not know the ratio";
}

TEST(GpuSizes, QueueFewerProductsThatTakeLonger) {
  EXPECT_DOUBLE_EQ(loaded_product_seconds(0.7e-3), 1e-3) << "B200";
  EXPECT_DOUBLE_EQ(loaded_product_seconds(3.7e-3), 4e-3) << "L40S";
  EXPECT_DOUBLE_EQ(loaded_product_seconds(7.6e-3), 8e-3) << "H20";
}

/// The part of the multiprocessors that are busy at the end of a product with these rows.
double busy(std::size_t rows, std::size_t hidden, int multiprocessors) {
  const auto tiles = rows / 128 * ((hidden + 255) / 256), all = static_cast<std::size_t>(multiprocessors);
  return static_cast<double>(tiles) / static_cast<double>((tiles + all - 1) / all * all);
}

TEST(GpuSizes, RowsOfLogitsFillTheMultiprocessorsOfAnyGpu) {
  for (const int multiprocessors : {78, 84, 108, 114, 132, 142, 148, 160, 188}) {
    for (const std::size_t hidden : {3584U, 4096U, 5120U, 8192U}) {
      const auto rows = logit_rows(hidden, multiprocessors);
      EXPECT_TRUE(rows % 128 == 0 && rows >= 2048 && rows <= 4096) << rows;
      EXPECT_GE(busy(rows, hidden, multiprocessors), 0.95) << multiprocessors << " " << hidden << " " << rows;
      EXPECT_GE(busy(rows, hidden, multiprocessors), busy(3584, hidden, multiprocessors));
    }
  }
}

}  // namespace
}  // namespace shakedown::gpu_sizes_test
