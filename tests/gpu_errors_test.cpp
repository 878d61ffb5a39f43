// Which errors and slowdowns of a GPU fail it, and how they are counted.
#include "thresholds/gpu_errors.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/results_builder.hpp"
#include "thresholds/judge.hpp"
#include "thresholds/nodes.hpp"

namespace shakedown {
namespace {

using testing_support::profile;
using testing_support::ResultsBuilder;
using testing_support::Values;
using Texts = std::vector<std::optional<std::string>>;

std::string key(int row) { return "gemm/row:" + std::to_string(row); }

/// Rows of a family; of each what the second of four ranks on two hosts said.
ResultsBuilder run(const char* name, const Texts& rows) {
  ResultsBuilder builder(4, 2);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    builder.add(key(static_cast<int>(row)), "tflops", 700).by_rank("throttled", Values(4, 0));
    builder.text_by_rank(name, {std::nullopt, rows[row], std::nullopt, std::nullopt});
  }
  return builder;
}

std::vector<Finding> judged(const char* name, const Texts& rows) {
  return judge_gpu_errors({run(name, rows).results()}, std::nullopt);
}

Verdict verdict_of(const char* name, const Texts& rows) {
  const std::string rule = ", metric: tflops, every: rank, min: 600, hosts: [1, 9], source: s}\n";
  return judge({run(name, rows).results()}, profile("  - {benchmark: \"" + key(0) + "\"" + rule), {});
}

TEST(GpuErrors, AreAFindingOfTheRankThatFailsIt) {
  const auto findings = judged("errors", {std::nullopt, "ECC uncorrected +2; XID 79; NVLink 3 CRC errors +5000"});
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].key, "machine/errors/rank:1");
  EXPECT_EQ(findings[0].status, Status::fail);
  EXPECT_TRUE(findings[0].counts());
  EXPECT_EQ(findings[0].detail,
            "while it was measured: ECC uncorrected (2 times, first in gemm/row:1), XID 79 (in gemm/row:1)");
  EXPECT_EQ(text(findings[0].offenders.at(0)), "rank 1 node0 GPU-1001 0000:11:00.0");
  EXPECT_FALSE(findings[1].counts()) << "what costs only time is a warning";
  EXPECT_NE(findings[1].detail.find("NVLink 3 CRC errors (5000 times"), std::string::npos) << findings[1].detail;
}

TEST(GpuErrors, InAllRowsOfASecondCountOnce) {
  const std::optional<std::string> second = "ECC uncorrected +2; XID 48, 3 times in 3 rows", later = "XID 48";
  const auto findings = judged("errors", {second, second, second, std::nullopt, later, later, std::nullopt, later});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].detail,
            "while it was measured: ECC uncorrected (2 times, first in gemm/row:0), "
            "XID 48 (5 times, first in gemm/row:0)");
}

TEST(GpuErrors, ThatAProgramCausesOrThatWereCorrectedAreAWarning) {
  for (const char* error : {"XID 13", "XID 31, 7 times", "XID 43", "XID 45", "ECC corrected +9", "PCIe replays +3",
                            "NVLink 17 replays +1", "NVLink 0 recoveries +1"}) {
    const Verdict verdict = verdict_of("errors", {error});
    EXPECT_EQ(verdict.state, State::pass) << error;
    EXPECT_EQ(std::count_if(verdict.findings.begin(), verdict.findings.end(),
                            [](const Finding& f) { return f.severity == Severity::warn && !f.good(); }),
              1)
        << error;
  }
}

TEST(GpuErrors, OfAnyOtherKindFail) {
  for (const char* error :
       {"XID 79", "XID 131", "XID 1", "SXID 12028", "ECC uncorrected +1", "rows remapped after corrected errors +1",
        "rows remapped after uncorrected errors +1", "something new +1"}) {
    EXPECT_EQ(verdict_of("errors", {error}).state, State::fail) << error;
  }
}

TEST(GpuErrors, TakeTheNodeOutAndNoOther) {
  for (const auto& [name, text] : {std::pair{"errors", "XID 79"}, {"throttle", "hw_thermal 100 %"}}) {
    const NodeList list = decide_nodes(verdict_of(name, {text}));
    EXPECT_EQ(host_file(list, NodeState::good), "node1 slots=2\n") << name;
    EXPECT_EQ(host_file(list, NodeState::bad), "node0 slots=2\n") << name;
  }
}

TEST(GpuErrors, OfOtherFamiliesAreNotJudgedWithOne) {
  EXPECT_TRUE(judge_gpu_errors({run("errors", {"XID 79"}).results()}, "hbm").empty());
  EXPECT_EQ(judge_gpu_errors({run("errors", {"XID 79"}).results()}, "gemm").size(), 1u);
}

TEST(GpuSlowdown, ByTheHardwareOrByHeatFails) {
  for (const char* reason : {"hw_slowdown", "hw_thermal", "hw_power_brake", "sw_thermal"}) {
    const auto findings = judged("throttle", {"sw_power_cap 100 %, " + std::string(reason) + " 40 %", std::nullopt});
    ASSERT_EQ(findings.size(), 1u) << reason;
    EXPECT_EQ(findings[0].key, "machine/slowdown/rank:1");
    EXPECT_TRUE(findings[0].counts()) << reason;
    EXPECT_EQ(findings[0].value, 20) << "half of the rows";
    EXPECT_EQ(findings[0].detail,
              "slowed down (" + std::string(reason) + ") for 20.0 % of the time of gemm, first in gemm/row:0");
  }
  EXPECT_TRUE(judged("throttle", {"sw_power_cap 100 %"}).empty()) << "what a loaded GPU works at";
}

// NVML may report one while a clock changes.
TEST(GpuSlowdown, ForAMomentIsAWarning) {
  Texts rows(30);
  rows[7] = "hw_slowdown 100 %";
  EXPECT_EQ(verdict_of("throttle", rows).state, State::pass);
  const auto findings = judged("throttle", rows);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_FALSE(findings[0].counts());
  rows[8] = rows[7];
  EXPECT_EQ(verdict_of("throttle", rows).state, State::fail);
}

}  // namespace
}  // namespace shakedown
