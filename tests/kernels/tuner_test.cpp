// The search for the fastest algorithm, on candidates whose times a test chooses and a clock that they advance.
#include "kernels/tuner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/effort.hpp"
#include "kernels/gemm_tuning.hpp"
#include "tests/kernels/transformer/ranks.hpp"

namespace shakedown::tuner_test {
namespace {

/// Candidates by the seconds of one operation; infinity does not run. Counts the operations of each.
class Times final : public Trials {
 public:
  explicit Times(std::vector<double> seconds) : seconds_(std::move(seconds)), operations(seconds_.size()) {}

  bool runs(std::size_t candidate) override {
    if (!std::isfinite(seconds_[candidate])) return false;
    seconds(candidate, 1);
    return true;
  }
  double seconds(std::size_t candidate, int repeats) override {
    now_ += seconds_[candidate] * repeats;
    operations[candidate] += repeats;
    return seconds_[candidate];
  }
  void rest(double seconds) override { now_ += seconds; }
  double now() const override { return now_; }

  std::size_t tried() const {
    return static_cast<std::size_t>(std::count_if(operations.begin(), operations.end(), [](int n) { return n > 0; }));
  }

 private:
  std::vector<double> seconds_;
  double now_ = 0;

 public:
  std::vector<int> operations;
};

std::vector<double> alike(double once, std::size_t count = 16) { return std::vector<double>(count, once); }

TEST(Tuner, TakesTheFastestThatRuns) {
  Times times({1.2e-3, HUGE_VAL, 1e-3, 1.1e-3});
  EXPECT_EQ(pick_fastest(times, 4, {.seconds = 0.2}), 2U);
  Times in_bursts({1.2e-3, HUGE_VAL, 1e-3, 1.1e-3});
  EXPECT_EQ(pick_fastest(in_bursts, 4, gemm_tuning(DType::bf16, Load::burst)), 2U);
  Times alone({1e-3, 2e-3, 2e-3});
  EXPECT_EQ(pick_fastest(alone, 3, gemm_tuning(DType::int8, Load::burst)), 0U) << "the first turn drops the others";
  Times none({HUGE_VAL, HUGE_VAL});
  EXPECT_EQ(pick_fastest(none, 2, {.seconds = 0.2}), std::nullopt);
}

TEST(Tuner, ComparesAsManyProductsOfTheLongestThatH200HasAsBefore) {
  const auto f64 = gemm_tuning(DType::f64, Load::burst);
  Times times(alike(0.147));  // 16384 at 60 TFLOPS
  pick_fastest(times, 16, f64);
  EXPECT_EQ(times.tried(), 12U);
  EXPECT_EQ(times.operations[1], 1 + 3) << "a warm-up and three turns";
}

TEST(Tuner, TakesSecondsForAProductThatTakesSeconds) {
  const auto f64 = gemm_tuning(DType::f64, Load::burst);
  for (const double once : {0.3, 0.9, 1.2, 2.4, 7.0}) {
    Times times(alike(once));
    EXPECT_EQ(pick_fastest(times, 16, f64), 0U);
    EXPECT_LE(times.now(), std::max(12.0, once)) << once;
    EXPECT_LE(times.now(), once + long_tuning_seconds(once) + 1.5) << once << ": as planned";
  }
  Times longest(alike(7));
  pick_fastest(longest, 16, f64);
  EXPECT_EQ(longest.now(), 7) << "the first candidate alone";
}

TEST(Tuner, ComparesARememberedChoiceOfLongProductsOnce) {
  Times times({2, 2.5});
  EXPECT_EQ(one_turn(times, 2, gemm_bursts), (std::vector<double>{2, 2.5}));
  EXPECT_EQ(times.operations, (std::vector<int>{2, 2}));
}

TEST(Effort, IsLessForStepsThatTakeLong) {
  EXPECT_EQ(warm_up_steps(0.46), 3);
  EXPECT_EQ(warm_up_steps(3), 1);
  EXPECT_EQ(single_samples(10, 0.46), 10);
  EXPECT_EQ(single_samples(10, 0), 10) << "unknown";
  EXPECT_EQ(single_samples(10, 1.5), 6);
  EXPECT_EQ(single_samples(10, 30), 5) << "fewer are no measurement";
  EXPECT_EQ(single_samples(3, 30), 3);
}

TEST(TuningShare, DividesOperationsAmongRanksWithEqualDevices) {
  run_ranks(3, [](Group& group) {
    const auto share = tuning_share(group, "one model");
    std::vector<int> own;
    for (std::size_t operation = 0; operation < 7; ++operation) {
      if (share.owner(operation) == share.rank) own.push_back(static_cast<int>(operation));
    }
    const std::vector<std::vector<int>> expected{{0, 3, 6}, {1, 4}, {2, 5}};
    EXPECT_EQ(own, expected[static_cast<std::size_t>(group.rank())]);
  });
}

TEST(TuningShare, GivesAllOperationsToEachRankIfDevicesDiffer) {
  run_ranks(2, [](Group& group) {
    const auto share = tuning_share(group, group.rank() == 0 ? "one model" : "another model");
    for (std::size_t operation = 0; operation < 3; ++operation) EXPECT_EQ(share.owner(operation), share.rank);
  });
}

}  // namespace
}  // namespace shakedown::tuner_test
