// What counts as slower than the baseline, and which sets are not compared at all.
#include "thresholds/regression.hpp"

#include <gtest/gtest.h>

#include "tests/results_builder.hpp"

namespace shakedown {
namespace {

using testing_support::ResultsBuilder;

const std::string gemm = "gemm/dtype:bf16/m:8192/n:8192/k:8192";
const std::string small = "allreduce/dtype:f32/bytes:8";

ResultsBuilder measured(double tflops, double latency_us) {
  return ResultsBuilder().add(gemm, "tflops", tflops).add(small, "latency_us", latency_us, {}, {{"busbw_gbps", 0.001}});
}

Regression compared(const ResultsBuilder& now, const ResultsBuilder& before) {
  return judge_regression({now.results()}, {before.results()});
}

std::string trend(const Regression& regression, const std::string& key) {
  for (const Change& change : regression.changes) {
    if (change.key == key) return std::string(name(change.trend));
  }
  return "not compared";
}

std::string refusal(const ResultsBuilder& now, const ResultsBuilder& before) {
  try {
    compared(now, before);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Regression, IsTheSameWithinTheTolerance) {
  const Regression regression = compared(measured(680, 21), measured(700, 20));
  EXPECT_EQ(trend(regression, gemm), "same");
  EXPECT_EQ(trend(regression, small), "same");
  EXPECT_EQ(regression.exit_code, 0);
}

TEST(Regression, KnowsWhichDirectionIsWorse) {
  const Regression slower = compared(measured(600, 30), measured(700, 20));
  EXPECT_EQ(trend(slower, gemm), "worse");
  EXPECT_EQ(trend(slower, small), "worse") << "latency is the headline of a small AllReduce, and lower is better";
  EXPECT_EQ(slower.exit_code, 1);
  EXPECT_NEAR(*slower.changes[1].percent, -14.2857, 1e-3);
  const Regression faster = compared(measured(800, 15), measured(700, 20));
  EXPECT_EQ(trend(faster, gemm), "better");
  EXPECT_EQ(trend(faster, small), "better");
  EXPECT_EQ(faster.exit_code, 0);
}

TEST(Regression, IgnoresAMicrosecondOfATinyLatency) {
  EXPECT_EQ(trend(compared(measured(700, 9.5), measured(700, 8)), small), "same") << "19 %, but 1.5 us";
  EXPECT_EQ(trend(compared(measured(700, 11), measured(700, 8)), small), "worse");
}

TEST(Regression, ComparesMediansOverRepetitions) {
  auto now = ResultsBuilder().add(gemm, "tflops", 100).add(gemm, "tflops", 700).add(gemm, "tflops", 710);
  EXPECT_EQ(trend(compared(now, ResultsBuilder().add(gemm, "tflops", 700)), gemm), "same");
}

TEST(Regression, MissesWhatTheBaselineHas) {
  const Regression gone = compared(ResultsBuilder().add(gemm, "tflops", 700), measured(700, 20));
  EXPECT_EQ(trend(gone, small), "missing");
  EXPECT_EQ(gone.exit_code, 1);
  auto failed = ResultsBuilder().add_error(gemm, "wrong data").add(small, "latency_us", 20);
  const Regression broken = compared(failed, measured(700, 20));
  EXPECT_EQ(trend(broken, gemm), "missing");
  EXPECT_EQ(broken.changes[1].detail, "wrong data");
}

TEST(Regression, MissesWhatFailedNowEvenIfTheBaselineHasNoneOfIt) {
  auto now = ResultsBuilder().add(gemm, "tflops", 700).add_error(small, "wrong data");
  const auto no_baseline = ResultsBuilder().add(gemm, "tflops", 700);
  auto bad_baseline = no_baseline;
  bad_baseline.add_error(small, "timed out");
  for (const auto& before : {no_baseline, bad_baseline}) {
    const Regression regression = compared(now, before);
    EXPECT_EQ(trend(regression, small), "missing");
    EXPECT_EQ(regression.changes[0].detail, "wrong data");
    EXPECT_EQ(regression.exit_code, 1);
    EXPECT_EQ(findings_of(regression, default_tolerance, 4)[0].status, Status::missing);
  }
  const Regression nothing_else = compared(ResultsBuilder().add_error(small, "wrong data"), no_baseline);
  EXPECT_EQ(nothing_else.exit_code, 1) << "nothing can be compared, but it is known why";
}

TEST(Regression, ShowsWhatIsNewAndAccepts) {
  const Regression regression = compared(measured(700, 20), ResultsBuilder().add(gemm, "tflops", 700));
  EXPECT_EQ(trend(regression, small), "new");
  EXPECT_EQ(regression.exit_code, 0);
}

TEST(Regression, RefusesSetsThatHaveNothingInCommon) {
  auto waived = ResultsBuilder().add_waiver(gemm, "needs 300 GB");
  EXPECT_NE(refusal(waived, waived).find("nothing to compare"), std::string::npos);
  auto failed = ResultsBuilder().add_error(gemm, "wrong data");
  EXPECT_NE(refusal(measured(700, 20), failed).find("nothing to compare"), std::string::npos) << "all of it is new";
}

TEST(Regression, RefusesAnInjectedFaultOnEitherSide) {
  const auto clean = measured(700, 20);
  auto faulty = measured(700, 20);
  faulty.context.fault = "slow:10@1";
  EXPECT_NE(refusal(faulty, clean).find("injected fault (slow:10@1)"), std::string::npos);
  EXPECT_NE(refusal(clean, faulty).find("injected fault (slow:10@1)"), std::string::npos);
  const auto both = judge_regression({faulty.results()}, {clean.results()}, default_tolerance, true);
  EXPECT_EQ(both.exit_code, 0) << "allowed, to test the tests";
}

TEST(Regression, RefusesAnotherConfigurationAndNamesIt) {
  const auto base = measured(700, 20);
  const auto refused = [&](auto change) {
    auto other = measured(700, 20);
    change(other.context);
    return refusal(base, other);
  };
  EXPECT_NE(
      refused([](Context& c) { c.versions["driver"] = "570.1"; }).find("driver is 580.159, the baseline has 570.1"),
      std::string::npos);
  EXPECT_NE(refused([](Context& c) { c.versions["nccl"] = "2.27"; }).find("nccl is"), std::string::npos);
  EXPECT_NE(refused([](Context& c) { c.versions.erase("nccl"); }).find("the baseline has unknown"), std::string::npos);
  EXPECT_NE(refused([](Context& c) { c.versions["cuda"] = "12.8"; }).find("cuda is"), std::string::npos);
  EXPECT_NE(refused([](Context& c) { c.versions["cublaslt"] = "12.8"; }).find("cublaslt is"), std::string::npos);
  EXPECT_NE(refused([](Context& c) { c.nccl["nvls"] = "on"; }).find("nvls is off, the baseline has on"),
            std::string::npos);
  EXPECT_NE(refused([](Context& c) { c.tier = "full"; }).find("tier is quick, the baseline has full"),
            std::string::npos);
  EXPECT_NE(refused([](Context& c) { c.suite.build_type = "Debug"; }).find("build_type is"), std::string::npos);
  EXPECT_NE(refused([](Context& c) { c.backend = "host"; }).find("backend is"), std::string::npos);
  EXPECT_NE(refused([](Context& c) { c.hosts = 2; }).find("hosts is 1, the baseline has 2"), std::string::npos);
  EXPECT_NE(refused([](Context& c) {
              for (auto& rank : c.ranks) rank.device = "NVIDIA H100 80GB HBM3";
            }).find("device is NVIDIA H200, the baseline has NVIDIA H100"),
            std::string::npos);
  EXPECT_NE(
      refusal(ResultsBuilder(2).add(gemm, "tflops", 1), ResultsBuilder(4).add(gemm, "tflops", 1)).find("ranks is 2"),
      std::string::npos);
}

TEST(Regression, RefusesAnotherTuningAndNamesIt) {
  const auto plain = measured(700, 20);
  auto tuned = plain;
  tuned.context.environment["NCCL_ALGO"] = "Tree";
  EXPECT_NE(refusal(tuned, plain).find("NCCL_ALGO is Tree, the baseline has unset"), std::string::npos);
  EXPECT_NE(refusal(plain, tuned).find("NCCL_ALGO is unset, the baseline has Tree"), std::string::npos);
  EXPECT_EQ(refusal(tuned, tuned), "");
  auto elsewhere = plain;
  for (const char* variable : {"CUDA_VISIBLE_DEVICES", "SLURM_JOB_NUM_NODES", "NCCL_DEBUG_FILE"}) {
    elsewhere.context.environment[variable] = "1";
  }
  EXPECT_EQ(refusal(elsewhere, plain), "") << "these say where it ran, not how";
}

TEST(Regression, RefusesNothingAndASillyTolerance) {
  const auto results = std::vector{measured(700, 20).results()};
  EXPECT_THROW(judge_regression({}, results), InputError);
  EXPECT_THROW(judge_regression(results, {}), InputError);
  EXPECT_THROW(judge_regression(results, results, 1.0), InputError);
  EXPECT_THROW(judge_regression(results, results, -0.1), InputError);
}

TEST(Regression, BecomesFindingsOfAVerdict) {
  const auto regression = compared(measured(600, 20), measured(700, 20));
  const auto findings = findings_of(regression, default_tolerance, 4);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[1].key, gemm);
  EXPECT_EQ(findings[1].status, Status::fail);
  EXPECT_DOUBLE_EQ(*findings[1].limit, 665);
  EXPECT_EQ(findings[1].detail, "-14.3 %");
  EXPECT_EQ(findings[0].status, Status::pass);
}

}  // namespace
}  // namespace shakedown
