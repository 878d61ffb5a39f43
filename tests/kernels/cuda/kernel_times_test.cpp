// Times of kernels by part from CUPTI.
#include "kernels/cuda/kernel_times.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/kernels/cuda/on_gpu.hpp"

namespace shakedown::cuda {
namespace {

class KernelTimesTest : public OnGpu {};

TEST_F(KernelTimesTest, BelongToThePartThatLaunchedThem) {
  const Buffer large(std::size_t{1} << 30), small(4096);
  const auto times = KernelTimes::start();
  if (times == nullptr) GTEST_SKIP() << "CUPTI is absent, or another profiler uses it";
  gpu_->fill(small, 1);  // in no part
  times->begin_part(0);
  for (int i = 0; i < 3; ++i) gpu_->fill(large, 1);
  times->end_part();
  times->begin_part(1);
  times->end_part();
  times->begin_part(2);
  gpu_->fill(large, 2);
  times->end_part();
  gpu_->synchronize();
  const auto milliseconds = times->milliseconds(3);
  ASSERT_TRUE(milliseconds);
  ASSERT_EQ(milliseconds->size(), 3U);
  EXPECT_GT((*milliseconds)[2], 0.05) << "10 TB/s would take 0.1 ms";
  EXPECT_NEAR((*milliseconds)[0], 3 * (*milliseconds)[2], 0.2 * (*milliseconds)[0]);
  EXPECT_EQ((*milliseconds)[1], 0);
}

TEST_F(KernelTimesTest, AreNoneWithoutWork) {
  const auto times = KernelTimes::start();
  if (times == nullptr) GTEST_SKIP() << "CUPTI is absent, or another profiler uses it";
  EXPECT_FALSE(times->milliseconds(1));
}

TEST(KernelTimesWithoutAGpu, LeaveTheCudaOfAnotherProfilerAlone) {
  ASSERT_EQ(setenv("CUDA_INJECTION64_PATH", "/nonexistent", 1), 0);
  EXPECT_EQ(KernelTimes::start(), nullptr);
  unsetenv("CUDA_INJECTION64_PATH");
}

}  // namespace
}  // namespace shakedown::cuda
