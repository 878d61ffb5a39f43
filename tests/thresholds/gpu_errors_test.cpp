// Tests which errors and slowdowns fail a GPU, and how they are counted.
#include "thresholds/rules/gpu_errors.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/known_events.hpp"
#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/judge/nodes.hpp"

namespace shakedown::gpu_errors_test {
namespace {

using testing_support::profile;
using testing_support::ResultsBuilder;
using testing_support::Values;

std::string key(std::size_t row) { return "gemm/row:" + std::to_string(row); }

/// The errors and slowdowns of one GPU in a row.
struct Said {
  Throttle throttle = {};
  ErrorCounts errors = {};
  int rows = 1;  // that share the reading of its counters
};
Said slowed(const Throttle& throttle) { return {throttle}; }
Said counted(const ErrorCounts& errors, int rows = 1) { return {{}, errors, rows}; }

/// Rows of a family with the data of the second of four ranks on two hosts.
ResultsBuilder run(const std::vector<Said>& rows) {
  ResultsBuilder builder(4, 2);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    builder.add(key(row), "tflops", 700).by_rank("throttled", Values(4, 0));
    builder.throttle(1, rows[row].throttle).errors(1, rows[row].errors, rows[row].rows);
  }
  return builder;
}

const std::string during = "during the run: ";

/// Returns an error, its number and its first row, as in a finding.
std::string times(const std::string& error, int count, std::size_t row) {
  return error + " (" + std::to_string(count) + " times, first in " + key(row) + ")";
}

std::vector<Finding> judged(const std::vector<Said>& rows) { return judge_gpu_errors({run(rows).results()}, {}); }

Verdict verdict_of(const std::vector<Said>& rows) {
  const std::string rule = ", metric: tflops, every: rank, min: 600, hosts: [1, 9], source: s}\n";
  return judge({run(rows).results()}, profile("  - {benchmark: \"" + key(0) + "\"" + rule), {});
}

TEST(GpuErrors, CountInARowThatFailedOrWasWaived) {
  for (const std::string message : {"CUDA error: out of memory", "waived: needs 300 GB"}) {
    ResultsBuilder builder(4, 2);
    builder.add(key(0), "tflops", 700).add_error(key(1), message);
    builder.throttle(1, {{"hw_thermal", 0.5}}).errors(1, {{"ecc_uncorrected", 2}});
    const auto findings = judge_gpu_errors({builder.results()}, {});
    ASSERT_EQ(findings.size(), 2u) << message;
    EXPECT_EQ(findings[0].key, "machine/errors/rank:1");
    EXPECT_TRUE(findings[0].counts());
    EXPECT_EQ(findings[1].key, "machine/slowdown/rank:1");
  }
}

TEST(GpuErrors, ThatWereCorrectedFailAsAStorm) {
  EXPECT_FALSE(judged({{}, counted({{"ecc_corrected", 999}})}).at(0).counts());
  const auto storm = judged({{}, counted({{"ecc_corrected", 1000}})});
  ASSERT_EQ(storm.size(), 1u);
  EXPECT_TRUE(storm[0].counts());
  EXPECT_EQ(storm[0].detail, during + times("ECC corrected", 1000, 1));
}

TEST(GpuErrors, AreAFindingOfTheRankThatFailsIt) {
  const auto findings = judged({{}, counted({{"ecc_uncorrected", 2}, {"xid_79", 1}, {"nvlink_3_crc", 5000}})});
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].key, "machine/errors/rank:1");
  EXPECT_EQ(findings[0].status, Status::fail);
  EXPECT_TRUE(findings[0].counts());
  EXPECT_EQ(findings[0].detail,
            during + times("ECC uncorrected", 2, 1) + ", XID 79 (in gemm/row:1); XID 79: " + advice_on("xid_79"));
  EXPECT_EQ(text(findings[0].offenders.at(0)), "rank 1 node0 GPU-1001 0000:11:00.0");
  EXPECT_EQ(findings[0].next, "ssh node0 nvidia-smi -q -i GPU-1001 -d ECC,ROW_REMAPPER");
  EXPECT_FALSE(findings[1].counts()) << "what costs only time is a warning";
  EXPECT_NE(findings[1].detail.find("NVLink 3 CRC errors (5000 times"), std::string::npos) << findings[1].detail;
}

TEST(GpuErrors, InAllRowsOfASecondCountOnce) {
  const auto second = counted({{"ecc_uncorrected", 2}, {"xid_48", 3}}, 3), later = counted({{"xid_48", 1}}, 2);
  const auto findings = judged({second, second, second, {}, later, later, {}, counted({{"xid_48", 1}})});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].detail.substr(0, findings[0].detail.find(';')),
            during + times("ECC uncorrected", 2, 0) + ", " + times("XID 48", 5, 0));
}

TEST(GpuErrors, OfOneReadingAreNotDividedByARowThatFailed) {
  ResultsBuilder builder(4, 2);
  for (const std::size_t row : {0u, 2u}) {
    builder.add(key(row), "tflops", 700).errors(1, {{"xid_48", 2}}, 2);
    if (row == 0) builder.add_error(key(1), "CUDA error: out of memory");
  }
  const auto findings = judge_gpu_errors({builder.results()}, {});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].detail.rfind(during + times("XID 48", 2, 0), 0), 0u) << findings[0].detail;
}

TEST(GpuErrors, OfOneReadingAndTheSameOfTheNextAreTwo) {
  const auto once = counted({{"xid_48", 1}});
  EXPECT_EQ(judged({once, once}).at(0).detail.rfind(during + times("XID 48", 2, 0) + "; X", 0), 0u);
}

TEST(GpuErrors, ThatAProgramCausesOrThatWereCorrectedAreAWarning) {
  for (const char* error : {"xid_13", "xid_31", "xid_43", "xid_45", "ecc_corrected", "pcie_replays",
                            "nvlink_17_replays", "nvlink_0_recoveries"}) {
    const Verdict verdict = verdict_of({counted({{error, 7}})});
    EXPECT_EQ(verdict.state, State::pass) << error;
    EXPECT_EQ(std::count_if(verdict.findings.begin(), verdict.findings.end(),
                            [](const Finding& f) { return f.severity == Severity::warn && !f.good(); }),
              1)
        << error;
  }
}

TEST(GpuErrors, OfAnyOtherKindFail) {
  for (const char* error : {"xid_79", "xid_131", "xid_1", "sxid_12028", "ecc_uncorrected", "remapped_rows_corrected",
                            "remapped_rows_uncorrected", "something_new"}) {
    EXPECT_EQ(verdict_of({counted({{error, 1}})}).state, State::fail) << error;
  }
}

TEST(GpuErrors, TakeTheNodeOutAndNoOther) {
  for (const auto& said : {counted({{"xid_79", 1}}), slowed({{"hw_thermal", 1}})}) {
    const NodeList list = decide_nodes(verdict_of({said}));
    EXPECT_EQ(host_file(list, NodeState::good), "node1 slots=2\n");
    EXPECT_EQ(host_file(list, NodeState::bad), "node0 slots=2\n");
  }
}

TEST(GpuErrors, OfOtherFamiliesAreNotJudgedWithOne) {
  EXPECT_TRUE(judge_gpu_errors({run({counted({{"xid_79", 1}})}).results()}, {{"hbm"}}).empty());
  EXPECT_EQ(judge_gpu_errors({run({counted({{"xid_79", 1}})}).results()}, {{"gemm"}}).size(), 1u);
}

TEST(GpuSlowdown, ByTheHardwareOrByHeatFails) {
  for (const char* reason : {"hw_slowdown", "hw_thermal", "hw_power_brake", "sw_thermal"}) {
    const auto findings = judged({slowed({{"sw_power_cap", 1}, {reason, 0.4}}), {}});
    ASSERT_EQ(findings.size(), 1u) << reason;
    EXPECT_EQ(findings[0].key, "machine/slowdown/rank:1");
    EXPECT_TRUE(findings[0].counts()) << reason;
    EXPECT_NEAR(*findings[0].value, 20, 1e-9) << "half of the rows";
    EXPECT_EQ(findings[0].detail,
              "slowed down (" + std::string(reason) + ") for 20.0 % of the time of gemm, first in gemm/row:0");
  }
  EXPECT_TRUE(judged({slowed({{"sw_power_cap", 1}})}).empty()) << "what a loaded GPU works at";
}

TEST(GpuSlowdown, FailsFromATwentiethOfTheTimeOfTheFamilyThatItHitMost) {
  std::vector<Said> rows(19);
  rows[7] = slowed({{"hw_slowdown", 1}});
  const auto findings = judged(rows);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_TRUE(findings[0].counts());
  EXPECT_NEAR(*findings[0].value, 100.0 / 19, 1e-9);
  EXPECT_EQ(findings[0].limit->value, 5);
  rows.resize(21);
  EXPECT_FALSE(judged(rows).at(0).counts());
  auto others = run(rows);
  others.add("hbm/op:copy", "hbm_gb_per_s", 4000)
      .by_rank("throttled", Values(4, 0))
      .throttle(1, {{"hw_slowdown", 0.2}});
  const auto most = judge_gpu_errors({others.results()}, {});
  ASSERT_EQ(most.size(), 1u);
  EXPECT_NEAR(*most[0].value, 20, 1e-9);
  EXPECT_NE(most[0].detail.find("hbm, first"), std::string::npos) << most[0].detail;
  EXPECT_NE(most[0].detail.find("gemm/row:7"), std::string::npos) << most[0].detail;
}

TEST(GpuSlowdown, OfExactlyATwentiethFailsAndOfARowWithoutATimeWarns) {
  Results results = run({slowed({{"hw_slowdown", min_slowdown}})}).results();
  results.rows[0].iterations = results.rows[0].real_time = 1;
  EXPECT_TRUE(judge_gpu_errors({results}, {}).at(0).counts());
  results.rows[0].real_time = 0;
  const auto untimed = judge_gpu_errors({results}, {});
  EXPECT_FALSE(untimed.at(0).counts());
  EXPECT_EQ(untimed.at(0).value, 0);
}

TEST(GpuSlowdown, IsOfTheRowsWithTelemetryOnly) {
  auto builder = run({slowed({{"hw_slowdown", 1}})});
  for (std::size_t row = 1; row < 40; ++row) builder.add(key(row), "tflops", 700);
  EXPECT_NEAR(*judge_gpu_errors({builder.results()}, {}).at(0).value, 100, 1e-9);
}

TEST(GpuSlowdown, IsWeighedByTheSecondsOfARow) {
  // 62 short rows at full speed, and 10 s of load with throttling by heat.
  auto builder = run(std::vector<Said>(62));
  for (auto& row : builder.rows) row["real_time"] = 20.0, row["iterations"] = 5;  // ms
  builder.add("gemm/load:sustained", "tflops", 600).by_rank("throttled", Values(4, 0)).throttle(1, {{"sw_thermal", 1}});
  builder.rows.back()["real_time"] = 1.0;
  builder.rows.back()["iterations"] = 10000;
  const auto findings = judge_gpu_errors({builder.results()}, {});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_TRUE(findings[0].counts());
  EXPECT_NEAR(*findings[0].value, 100 * 10 / (10 + 62 * 0.1), 1e-6);
}

// NVML may report a slowdown while a clock changes.
TEST(GpuSlowdown, ForAMomentIsAWarning) {
  std::vector<Said> rows(30);
  rows[7] = slowed({{"hw_slowdown", 1}});
  EXPECT_EQ(verdict_of(rows).state, State::pass);
  const auto findings = judged(rows);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_FALSE(findings[0].counts());
  rows[8] = rows[7];
  EXPECT_EQ(verdict_of(rows).state, State::fail);
}

}  // namespace
}  // namespace shakedown::gpu_errors_test
