// The telemetry of a simulated GPU.
#include "node/telemetry.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "tests/node/fake_gpus.hpp"

namespace shakedown::telemetry_test {
namespace {

using std::chrono::milliseconds;

constexpr auto capped = static_cast<std::uint64_t>(ClockReason::sw_power_cap);
constexpr auto idle = static_cast<std::uint64_t>(ClockReason::idle);
constexpr auto hot = static_cast<std::uint64_t>(ClockReason::hw_thermal);

TEST(Summary, HasMeansOfClockAndPowerAndTheHighestTemperature) {
  const auto told = summary({{1980, 500, 50, 0}, {1400, 700, 56, capped}, {1420, 690, 55, capped}});
  EXPECT_EQ(told.samples, 3u);
  EXPECT_DOUBLE_EQ(*told.sm_mhz, 1600);
  EXPECT_DOUBLE_EQ(*told.power_w, 630);
  EXPECT_DOUBLE_EQ(*told.temperature_c, 56);
  EXPECT_DOUBLE_EQ(*told.throttled, 2.0 / 3);
  EXPECT_EQ(told.throttle, (Throttle{{"sw_power_cap", 2.0 / 3}}));
}

TEST(Summary, HasThePowerByTheEnergyCounterOfALongSeries) {
  const auto sample_at = [](double seconds, std::optional<double> energy_j) {
    return GpuSample{1980, 500, 50, 0, {}, energy_j, seconds};
  };
  const auto told = summary({sample_at(10, {}), sample_at(10.1, 7000), sample_at(12, 8000), sample_at(13.1, 9050)});
  EXPECT_NEAR(told.drawn_w.value(), 2050 / 3.0, 1e-9);
  EXPECT_DOUBLE_EQ(*told.power_w, 500);
  EXPECT_FALSE(summary({sample_at(10, 7000), sample_at(12.9, 9000)}).drawn_w) << "it is too short";
  EXPECT_FALSE(summary({sample_at(10, {}), sample_at(20, {})}).drawn_w) << "the driver has no counter";
}

TEST(Summary, HasTheUtilizationAfterTheFirstPeriodOfTheDriver) {
  const auto sample_at = [](double seconds, double gpu, double memory) {
    return GpuSample{1980, 500, 50, 0, {}, {}, seconds, gpu, memory};
  };
  const auto told =
      summary({sample_at(10, 3, 0), sample_at(11, 40, 20), sample_at(11.5, 98, 60), sample_at(12, 100, 62)});
  EXPECT_DOUBLE_EQ(told.gpu_busy_percent.value(), 99);
  EXPECT_DOUBLE_EQ(told.memory_busy_percent.value(), 61);
  EXPECT_FALSE(summary({sample_at(10, 3, 0), sample_at(10.9, 98, 60)}).gpu_busy_percent) << "it is too short";
  EXPECT_FALSE(summary({}).memory_busy_percent);
}

TEST(Summary, CountsASampleWithTwoReasonsOnce) {
  const auto told = summary({{1000, {}, {}, capped | hot}, {1000, {}, {}, capped}});
  EXPECT_DOUBLE_EQ(*told.throttled, 1);
  EXPECT_EQ(told.throttle, (Throttle{{"hw_thermal", 0.5}, {"sw_power_cap", 1}}));
}

TEST(Summary, OfAnIdleGpuIsNotThrottled) {
  const auto told = summary({{345, 75, 30, idle}});
  EXPECT_DOUBLE_EQ(*told.throttled, 0);
  EXPECT_TRUE(told.throttle.empty());
}

TEST(Summary, NamesASettingThatLimitsTheClockButDoesNotCallItThrottled) {
  const auto told = summary({{1200, {}, {}, static_cast<std::uint64_t>(ClockReason::applications_setting)}});
  EXPECT_DOUBLE_EQ(*told.throttled, 0);
  EXPECT_EQ(told.throttle, (Throttle{{"applications_setting", 1}}));
}

TEST(Summary, NamesReasonsAsResultsDo) {
  for (std::uint64_t bit = 2; bit != 0; bit <<= 1) {  // bit 1 means idle
    for (const auto& [reason, part] : summary({{1980, {}, {}, bit}}).throttle) {
      EXPECT_NE(throttle_in_words({{reason, 1}}).find(' '), std::string::npos);
      EXPECT_EQ(throttle_in_words({{reason, 1}}).find(reason), std::string::npos) << "no words for it";
    }
  }
}

TEST(Summary, KeepsWhatIsUnknownUnknown) {
  const auto told = summary({{{}, 600, {}, {}}, {{}, {}, {}, {}}});
  EXPECT_EQ(told.samples, 2u);
  EXPECT_FALSE(told.sm_mhz);
  EXPECT_DOUBLE_EQ(*told.power_w, 600);
  EXPECT_FALSE(told.temperature_c);
  EXPECT_FALSE(told.throttled);
  EXPECT_FALSE(summary({}).sm_mhz);
}

TEST(Grown, NamesTheCountersThatGrewAndNoOthers) {
  EXPECT_EQ(grown({{"a", 1}, {"b", 2}, {"gone", 3}}, {{"a", 1}, {"b", 5}, {"new", 9}}), (ErrorCounts{{"b", 3}}));
  EXPECT_TRUE(grown({{"reset meanwhile", 7}}, {{"reset meanwhile", 0}}).empty());
}

constexpr milliseconds settled{0};

GpuSummary watched(Telemetry& telemetry, milliseconds time) {
  telemetry.begin();
  std::this_thread::sleep_for(time);
  return telemetry.end();
}

TEST(Telemetry, WatchesItsGpu) {
  const FakeGpus gpus(
      "gpus 2\n* nvmlDeviceGetClockInfo:1 1980\n1 nvmlDeviceGetClockInfo:1 1410\n1 field:186 691000\n"
      "1 nvmlDeviceGetTemperature 57\n1 nvmlDeviceGetCurrentClocksEventReasons 4\n");
  Telemetry telemetry(*Nvml(FakeGpus::library()).find("GPU-fake-1", std::nullopt), milliseconds(1), settled);
  const auto told = watched(telemetry, milliseconds(1000));
  EXPECT_GE(told.samples, 3u);
  EXPECT_DOUBLE_EQ(told.sm_mhz.value(), 1410);
  EXPECT_DOUBLE_EQ(told.power_w.value(), 691);
  EXPECT_DOUBLE_EQ(told.temperature_c.value(), 57);
  EXPECT_DOUBLE_EQ(told.throttled.value(), 1);
  EXPECT_TRUE(telemetry.errors().empty());
}

TEST(Telemetry, TellsOfErrorsThatWereCountedMeanwhile) {
  const FakeGpus gpus(
      "0 nvmlDeviceGetTotalEccErrors:1:0 4|6\n0 nvmlDeviceGetPcieReplayCounter 10|10|10\n0 field:91 1\n"
      "0 field:163:0 7|8\n0 nvmlDeviceGetNvLinkState:0 1\n0 xid 79|13|79|none\n");
  Telemetry telemetry(*Nvml(FakeGpus::library()).find("GPU-fake-0", std::nullopt), milliseconds(1), settled);
  watched(telemetry, milliseconds(1));
  EXPECT_EQ(telemetry.errors(),
            (ErrorCounts{{"ecc_uncorrected", 2}, {"nvlink_0_crc", 1}, {"xid_13", 1}, {"xid_79", 2}}));
  watched(telemetry, milliseconds(1));
  EXPECT_TRUE(telemetry.errors().empty()) << "each is reported once";
}

TEST(Telemetry, TellsOfErrorsThatWereCountedWhileASeriesWasPrepared) {
  const FakeGpus gpus("0 nvmlDeviceGetTotalEccErrors:1:0 4|4|9\n0 xid none|79|none\n");
  Telemetry telemetry(*Nvml(FakeGpus::library()).find("GPU-fake-0", std::nullopt), milliseconds(1), settled);
  watched(telemetry, milliseconds(1));
  EXPECT_TRUE(telemetry.errors().empty());
  watched(telemetry, milliseconds(1));
  EXPECT_EQ(telemetry.errors(), (ErrorCounts{{"ecc_uncorrected", 5}, {"xid_79", 1}}));
}

TEST(Telemetry, TellsOfErrorsOfSeriesThatNobodyAskedAboutLater) {
  const FakeGpus gpus("0 nvmlDeviceGetTotalEccErrors:1:0 4|9\n");
  Telemetry telemetry(*Nvml(FakeGpus::library()).find("GPU-fake-0", std::nullopt), milliseconds(1), settled);
  watched(telemetry, milliseconds(1));
  watched(telemetry, milliseconds(1));
  EXPECT_EQ(telemetry.errors(), (ErrorCounts{{"ecc_uncorrected", 5}}));
}

TEST(Telemetry, CountsErrorsWhenToldToAndNotAgainWhenAsked) {
  const FakeGpus gpus(counting("0 nvmlDeviceGetPcieReplayCounter"));
  Telemetry telemetry(*Nvml(FakeGpus::library()).find("GPU-fake-0", std::nullopt), milliseconds(1), settled);
  for (int i = 0; i < 3; ++i) {
    watched(telemetry, milliseconds(1));
    telemetry.count();
    EXPECT_EQ(telemetry.errors(), (ErrorCounts{{"pcie_replays", 1}}));
  }
  EXPECT_EQ(telemetry.errors(), (ErrorCounts{{"pcie_replays", 1}})) << "not counted since";
}

TEST(Telemetry, TellsNothingBeforeItHasBegunAndCanBeEndedAtOnce) {
  const FakeGpus gpus("0 nvmlDeviceGetTotalEccErrors:1:0 4\n0 nvmlDeviceGetClockInfo:1 1410\n");
  Telemetry telemetry(*Nvml(FakeGpus::library()).find("GPU-fake-0", std::nullopt), milliseconds(1), settled);
  EXPECT_EQ(telemetry.end().samples, 0u);
  EXPECT_TRUE(telemetry.errors().empty());  // read once or twice: the thread may not have read the counters yet
  gpus.answer("0 nvmlDeviceGetTotalEccErrors:1:0 6\n0 nvmlDeviceGetClockInfo:1 1410\n");
  EXPECT_EQ(watched(telemetry, milliseconds(1000)).sm_mhz, 1410);
  EXPECT_EQ(telemetry.errors(), (ErrorCounts{{"ecc_uncorrected", 2}}));
  for (int i = 0; i < 100; ++i) {  // so short that the thread may not have noticed
    telemetry.begin();
    telemetry.end();
    EXPECT_TRUE(telemetry.errors().empty());
  }
}

TEST(Telemetry, AsksNothingBetweenTwoSeries) {
  const FakeGpus gpus(counting("0 nvmlDeviceGetClockInfo:1"));
  Telemetry telemetry(*Nvml(FakeGpus::library()).find("GPU-fake-0", std::nullopt), milliseconds(2), settled);
  const auto first = watched(telemetry, milliseconds(500));
  std::this_thread::sleep_for(milliseconds(100));
  const auto second = watched(telemetry, milliseconds(500));
  ASSERT_GE(first.samples, 1u);
  ASSERT_GE(second.samples, 1u);
  const auto own = static_cast<double>(second.samples);  // each sample reads a clock that is 1 MHz higher
  const auto asked_before = *second.sm_mhz - (own - 1) / 2 - 1;
  EXPECT_LE(asked_before, static_cast<double>(first.samples) + 3)
      << "besides one look at the beginning of each series, and one that may have been under way at the end";
}

TEST(Telemetry, OfAGpuThatTellsNothingIsUnknown) {
  const FakeGpus gpus("gpus 1\n");
  Telemetry telemetry(*Nvml(FakeGpus::old_library()).find("GPU-fake-0", std::nullopt), milliseconds(1), settled);
  const auto told = watched(telemetry, milliseconds(50));
  EXPECT_FALSE(told.sm_mhz);
  EXPECT_FALSE(told.throttled);
  EXPECT_TRUE(told.throttle.empty());
  EXPECT_TRUE(telemetry.errors().empty());
}

TEST(Telemetry, DoesNotTakeWhatTheDriverKnewBeforeForWhatHappensNow) {
  const FakeGpus gpus(
      "0 nvmlDeviceGetClockInfo:1 1980\n0 nvmlDeviceGetTemperature 50\n0 field:186 120000\n"
      "0 nvmlDeviceGetPowerUsage 100000\n0 nvmlDeviceGetCurrentClocksEventReasons 0\n");
  Telemetry telemetry(*Nvml(FakeGpus::library()).find("GPU-fake-0", std::nullopt), milliseconds(1),
                      milliseconds(60000));
  const auto told = watched(telemetry, milliseconds(100));
  EXPECT_FALSE(told.sm_mhz || told.power_w || told.temperature_c || told.throttled);
}

TEST(Telemetry, TakesWhatTheDriverHasRenewedInAShortSeries) {
  const FakeGpus gpus(
      "0 nvmlDeviceGetClockInfo:1 1980|1980|1400\n0 nvmlDeviceGetTemperature 50|50|56\n"
      "0 nvmlDeviceGetPowerUsage 100000|100000|110000\n0 field:186 120000\n"
      "0 nvmlDeviceGetCurrentClocksEventReasons 0|0|4\n");
  Telemetry telemetry(*Nvml(FakeGpus::library()).find("GPU-fake-0", std::nullopt), milliseconds(1),
                      milliseconds(60000));
  const auto told = watched(telemetry, milliseconds(1000));
  EXPECT_DOUBLE_EQ(told.sm_mhz.value(), 1400);
  EXPECT_DOUBLE_EQ(told.temperature_c.value(), 56);
  EXPECT_DOUBLE_EQ(told.throttled.value(), 1);
  EXPECT_FALSE(told.power_w) << "its copy has not been renewed";
}

TEST(Telemetry, CanBeTakenDownWhileItSamples) {
  const FakeGpus gpus("gpus 1\n");
  Telemetry telemetry(*Nvml(FakeGpus::library()).find("GPU-fake-0", std::nullopt), milliseconds(1), settled);
  telemetry.begin();
}

}  // namespace
}  // namespace shakedown::telemetry_test
