// How telemetry becomes values by rank, and what is said of GPUs that others use.
#include "fixtures/telemetry_rows.hpp"

#include <gtest/gtest.h>

#include "base/archive.hpp"
#include "fixtures/facts.hpp"

namespace shakedown {
namespace {

GpuSummary throttled_gpu() {
  GpuSummary gpu;
  gpu.samples = 9;
  gpu.sm_mhz = 1410.25;
  gpu.power_w = 700;
  gpu.temperature_c = 56;
  gpu.throttled = 0.38;
  gpu.throttle = {{"sw_power_cap", 0.38}};
  return gpu;
}

TEST(TelemetryRows, TravelBetweenRanksUnchanged) {
  const auto there = unpacked<GpuSummary>(packed(throttled_gpu()), "rank 1");
  EXPECT_EQ(there.sm_mhz, 1410.25);
  EXPECT_EQ(there.power_w, 700);
  EXPECT_EQ(there.temperature_c, 56);
  EXPECT_EQ(there.throttled, 0.38);
  EXPECT_EQ(there.throttle, (Throttle{{"sw_power_cap", 0.38}}));
  const auto nothing = unpacked<GpuSummary>(packed(GpuSummary{}), "rank 1");
  EXPECT_EQ(there.cycles, std::nullopt);
  EXPECT_FALSE(nothing.sm_mhz || nothing.power_w || nothing.temperature_c || nothing.throttled);
}

TEST(TelemetryRows, HaveEveryRankAndNothingForOneThatIsUnknown) {
  RankData data;
  data.by_rank = {{"tflops", {700, 690}}};
  add_telemetry({throttled_gpu(), GpuSummary{}}, 1e12, data);
  using Values = std::vector<std::optional<double>>;
  EXPECT_EQ(data.by_rank.at("sm_mhz"), (Values{1410.25, std::nullopt}));
  EXPECT_EQ(data.by_rank.at("throttled"), (Values{0.38, std::nullopt}));
  EXPECT_NEAR(data.by_rank.at("tflops_per_ghz")[0].value(), 700 / 1.41025, 1e-9);
  EXPECT_EQ(data.by_rank.at("tflops_per_ghz")[1], std::nullopt);
  EXPECT_DOUBLE_EQ(data.by_rank.at("tflops_per_w")[0].value(), 1);
  EXPECT_EQ(data.throttle, (ByRank{{"sw_power_cap", {0.38, std::nullopt}}}));
}

TEST(TelemetryRows, RateByTheCyclesThatTheGpuCountedWhereItDid) {
  auto counting = throttled_gpu();
  counting.cycles = 2e6;  // for 1e12 operations, while the clock that the driver knows is an older one
  RankData data;
  data.by_rank = {{"tflops", {700, 690}}};
  add_telemetry({unpacked<GpuSummary>(packed(counting), "rank 0"), throttled_gpu()}, 1e12, data);
  EXPECT_DOUBLE_EQ(data.by_rank.at("tflops_per_ghz")[0].value(), 500);
  EXPECT_NEAR(data.by_rank.at("tflops_per_ghz")[1].value(), 690 / 1.41025, 1e-9);
}

TEST(TelemetryRows, RateByClockOnlyWhatHasTflops) {
  RankData data;
  data.by_rank = {{"busbw_gb_per_s", {350}}};
  add_telemetry({throttled_gpu()}, 0, data);
  EXPECT_EQ(data.by_rank.count("tflops_per_ghz"), 0u);
  EXPECT_EQ(data.by_rank.count("sm_mhz"), 1u);
}

TEST(TelemetryRows, OfARankThatStandsByHaveNoRate) {
  RankData data;
  data.by_rank = {{"tflops", {700, std::nullopt}}};
  add_telemetry({throttled_gpu(), throttled_gpu()}, 1e12, data);
  EXPECT_EQ(data.by_rank.at("tflops_per_ghz")[1], std::nullopt);
}

TEST(BusyGpus, AreNamedWithProcessAndMemory) {
  Context context;
  context.ranks = {{0, "a", 0, "NVIDIA H200", "GPU-0", {}, "0000:10:00.0", {}, {}, {}},
                   {1, "a", 1, "NVIDIA H200", "GPU-1", {}, "0000:11:00.0", {}, {}, {}},
                   {2, "a", 2, "NVIDIA H200", "GPU-2", {}, "0000:12:00.0", {}, {}, {}}};
  context.ranks[0].processes.emplace();  // known to have none
  context.ranks[1].processes = {{4321, "python3", 37200000000}, {77, std::nullopt, std::nullopt}};
  const auto lines = busy_gpus(context);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(
      lines.front(),
      "rank 1 (a): GPU GPU-1 0000:11:00.0 is in use by pid 4321 python3 with 37200 MB, pid 77 (name unknown) with "
      "unknown memory: what is measured there is shared with it; end it, or measure again without it");
}

}  // namespace
}  // namespace shakedown
