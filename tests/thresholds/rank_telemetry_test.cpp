// Tests what a failing finding says about its GPU.
#include "thresholds/findings/rank_telemetry.hpp"

#include <gtest/gtest.h>

#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/judge/verdict.hpp"

namespace shakedown::rank_telemetry_test {
namespace {

using testing_support::profile;
using testing_support::ResultsBuilder;
using testing_support::Values;

const std::string key = "gemm/dtype:bf16/m:8192/n:8192/k:8192";
const std::string floor_of_700 = "  - {benchmark: \"" + key + "\", metric: tflops, every: rank, min: 700, source: s}\n";

const std::string power_cap = "software power cap";

/// Four ranks; rank 2 reaches 623.
ResultsBuilder slow() {
  ResultsBuilder builder;
  builder.add(key, "tflops", 623, {710, 711, 623, 712});
  builder.context.ranks[2].sm_mhz_max = 1980;
  return builder;
}

std::string cause_of(const ResultsBuilder& builder, int rank = 2) {
  const std::vector<Results> results{builder.results()};
  return cause(benchmarks_of(results).at(Key(key)), rank);
}

Finding only_failure(ResultsBuilder builder, const std::string& rules) {
  builder.repeated();
  Finding found;
  int failures = 0;
  for (const auto& finding : judge({builder.results()}, profile(rules), {}).findings) {
    if (finding.status != Status::fail || finding.judgement != Judgement::rule) continue;
    found = finding;
    ++failures;
  }
  EXPECT_EQ(failures, 1);
  return found;
}

TEST(Cause, IsThePowerCapAndTheClockThatItLeft) {
  auto builder = slow();
  builder.by_rank("throttled", {0, 0, 0.38, 0}).by_rank("sm_mhz", {1980, 1980, 1410, 1975});
  builder.throttle(2, {{"sw_power_cap", 0.38}});
  EXPECT_EQ(cause_of(builder), power_cap + " 38 % of the time, 1,410 of 1,980 MHz");
  EXPECT_EQ(only_failure(builder, floor_of_700).detail, "-11 %: " + cause_of(builder));
}

TEST(Cause, SaysWattsForPowerAndDegreesForHeat) {
  auto builder = slow();
  builder.context.ranks[2].power_limit_w = 550;
  builder.by_rank("throttled", {0, 0, 1, 0}).by_rank("power_w", {500, 500, 548.7, 500});
  builder.by_rank("temperature_c", {50, 50, 87, 50});
  builder.throttle(2, {{"sw_power_cap", 0.9}, {"hw_thermal", 0.1}});
  EXPECT_TRUE(cause_of(builder).starts_with(power_cap + " 90 %"));
  EXPECT_TRUE(cause_of(builder).ends_with(" slowdown 10 %, 549 of 550 W, 87 C"));
}

TEST(Cause, OfAGpuThatNothingHeldDownLiesElsewhere) {
  auto builder = slow();
  builder.by_rank("throttled", {0, 0, 0, 0}).by_rank("sm_mhz", {1980, 1980, 1980, 1980});
  EXPECT_EQ(cause_of(builder), "not throttled, 1,980 of 1,980 MHz");
  EXPECT_EQ(cause_of(builder, 0), "not throttled, 1,980 MHz") << "whose highest clock is not known";
}

TEST(Cause, OfALowClockIsNotDeniedWhereTheDriverNamesNone) {
  auto builder = slow();
  builder.by_rank("throttled", {0, 0, 0, 0}).by_rank("sm_mhz", {1980, 1980, 1545, 1980});
  EXPECT_EQ(cause_of(builder), "1,545 of 1,980 MHz without a reason from the driver");
}

TEST(Cause, OfAnUnknownGpuIsNotInvented) {
  EXPECT_EQ(cause_of(slow()), "");
  auto builder = slow();
  builder.by_rank("throttled", Values(4)).by_rank("sm_mhz", Values(4));
  EXPECT_EQ(cause_of(builder), "");
  EXPECT_EQ(only_failure(builder, floor_of_700).detail, "");
}

TEST(Cause, NamesTheErrorsThatTheGpuCounted) {
  auto builder = slow();
  builder.errors(1, {{"xid_13", 1}}).errors(2, {{"xid_79", 1}, {"ecc_uncorrected", 2}});
  EXPECT_TRUE(cause_of(builder).ends_with(": ECC uncorrected +2; XID 79"));
}

TEST(Cause, NamesWhoElseUsedTheGpu) {
  auto builder = slow();
  builder.context.ranks[2].processes = {{4321, "python3", 37200000000}, {77, std::nullopt, std::nullopt}};
  EXPECT_TRUE(cause_of(builder).ends_with(" pid 4321 python3 (37200 MB), pid 77"));
  EXPECT_EQ(cause_of(builder, 1), "");
}

TEST(Cause, IsTakenFromTheRepetitionThatWasThrottledMost) {
  auto builder = slow();
  builder.by_rank("throttled", {0, 0, 0.1, 0}).throttle(2, {{"sw_power_cap", 0.1}});
  builder.add(key, "tflops", 600, {710, 711, 600, 712});
  builder.by_rank("throttled", {0, 0, 0.9, 0}).throttle(2, {{"hw_thermal", 0.9}});
  EXPECT_NE(cause_of(builder).find("thermal slowdown 90 %"), std::string::npos);
}

TEST(Cause, OfRanksThatDifferIsMeasuredAgainstTheTypicalOne) {
  auto builder = slow();
  builder.by_rank("throttled", {0, 0, 1, 0}).throttle(2, {{"applications_setting", 1}});
  const auto finding = only_failure(
      builder, "  - {benchmark: \"" + key + "\", metric: tflops, every: rank, spread_max: 0.05, source: s}\n");
  EXPECT_EQ(finding.detail.rfind("ranks differ: 623 to 712 TFLOPS; -12 %: ", 0), 0U);
  EXPECT_NE(finding.detail.find(" setting 100 % "), std::string::npos);
}

TEST(Telemetry, IsJudgedByRulesOnItsMetrics) {
  auto builder = slow();
  builder.by_rank("tflops_per_ghz", {454, 454, 420, 455}).by_rank("throttled", {0, 0, 0.38, 0});
  const auto by_clock = only_failure(
      builder, "  - {benchmark: \"" + key + "\", metric: tflops_per_ghz, every: rank, spread_max: 0.03, source: s}\n");
  EXPECT_EQ(by_clock.worst->rank, 2);
  EXPECT_EQ(by_clock.limit->kind, LimitKind::spread_max);
  const auto throttled =
      only_failure(builder, "  - {benchmark: \"" + key + "\", metric: throttled, every: rank, max: 0.1, source: s}\n");
  EXPECT_EQ(throttled.worst->rank, 2);
  EXPECT_EQ(throttled.value, 0.38);
}

TEST(Telemetry, ThatIsUnknownOnARankIsMissingThere) {
  auto builder = slow();
  builder.by_rank("throttled", {0, std::nullopt, 0, 0});
  const auto verdict =
      judge({builder.results()},
            profile("  - {benchmark: \"" + key + "\", metric: throttled, every: rank, max: 0.1, source: s}\n"), {});
  ASSERT_EQ(verdict.findings.back().metric, "throttled");
  EXPECT_EQ(verdict.findings.back().status, Status::missing);
  EXPECT_EQ(verdict.findings.back().offenders.at(0).rank, 1);
  EXPECT_EQ(verdict.state, State::fail);
}

TEST(Telemetry, OfARunThatIsNullIsMissing) {
  auto builder = slow();
  builder.by_rank("sm_mhz", Values(4));
  const auto verdict =
      judge({builder.results()},
            profile("  - {benchmark: \"" + key + "\", metric: sm_mhz, every: run, min: 1000, source: s}\n"), {});
  EXPECT_EQ(verdict.findings.back().status, Status::missing);
}

}  // namespace
}  // namespace shakedown::rank_telemetry_test
