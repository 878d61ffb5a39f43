// Tests the verdict of errors, waivers and missing values.
#include <algorithm>

#include "tests/thresholds/judged_rules.hpp"

namespace shakedown::missing_values_test {
namespace {

using namespace judged_rules;
using testing_support::profile;
using testing_support::ResultsBuilder;

TEST(Verdict, FailsForAnErrorInAnyRepetition) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 700).add_error(gemm, "wrong data at rank 2").add(gemm, "tflops", 700);
  const Verdict verdict = judged(builder, gemm_rule + "}\n");
  expect_state(verdict, State::fail, 1);
  EXPECT_EQ(find(verdict, gemm).detail, "repetition 1: wrong data at rank 2");
}

TEST(Verdict, FailsForAnErrorThatNoRuleNames) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 700).add_error("gemm/dtype:int8/m:1/n:1/k:1", "wrong data");
  const Verdict verdict = judged(builder, gemm_rule + "}\n");
  expect_state(verdict, State::fail, 1);
  EXPECT_EQ(find(verdict, "gemm/dtype:int8/m:1/n:1/k:1").detail, "wrong data");
}

TEST(Verdict, FailsForAnErrorThatOnlyAWarningNames) {
  ResultsBuilder builder;
  builder.add_error(gemm, "wrong data").add(allreduce, "busbw_gb_per_s", 350);
  expect_state(judged(builder, gemm_rule + ", severity: warn}\n" + allreduce_rule + "}\n"), State::fail, 1);
}

TEST(Verdict, DoesNotPassOnNothing) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 700);
  const Verdict verdict =
      judge({builder.results()}, profile(allreduce_rule + ", ranks: 8}\n", "unjudged: [gemm, allreduce]\n"), {});
  expect_state(verdict, State::no_reference, 3);
}

TEST(Verdict, KnowsTheFamiliesThatAProfileLeavesUnjudged) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 700);
  const auto judged_with = [&](const std::string& family) {
    JudgeOptions options;
    options.families = {{"gemm", family}};
    return judge({builder.results()}, profile(gemm_rule + "}\n", "unjudged: [of_site]\n"), options);
  };
  EXPECT_TRUE(has(judged_with("of_site"), "of_site")) << "it was not measured";
  EXPECT_THROW(judged_with("of_nobody"), InputError);
}

TEST(Verdict, SaysOnceThatARuleNeedsToKnowWhetherNvlsWasOn) {
  const auto lines_on_allreduce = [](const ResultsBuilder& builder) {
    const Verdict verdict = judged(builder, gemm_rule + "}\n" + allreduce_rule + ", nvls: on}\n");
    EXPECT_NE(verdict.exit_code, 0) << verdict_line(verdict);
    return std::count_if(verdict.findings.begin(), verdict.findings.end(),
                         [](const Finding& f) { return f.key.family() == "allreduce"; });
  };
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 700);
  EXPECT_EQ(lines_on_allreduce(builder), 1) << "it was not measured";
  builder.add(allreduce, "busbw_gb_per_s", 350);
  EXPECT_EQ(lines_on_allreduce(builder), 1) << "no rule could be applied";
}

TEST(Verdict, WarnsOfMemoryThatWasNotGivenBack) {
  ResultsBuilder builder;
  builder.context.ranks[1].memory_kept_mib = 512;
  builder.add("hbm/op:copy/engine:sm/bytes:1073741824", "hbm_gb_per_s", 4000);
  EXPECT_TRUE(has(judged(builder, gemm_rule + "}\n"), "machine/memory/rank:1"));
}

TEST(Verdict, FailsForAnErrorWhereNoProfileMatches) {
  ResultsBuilder builder(4, 1, "NVIDIA B200");
  builder.add_error(gemm, "wrong data");
  const Verdict verdict = judged(builder, gemm_rule + "}\n");
  expect_state(verdict, State::fail, 1);
  EXPECT_EQ(find(verdict, "machine/profile").status, Status::no_reference);
}

TEST(Verdict, MissesABenchmarkThatARuleRequires) {
  const Verdict verdict = judged(ResultsBuilder().add(gemm, "tflops", 700), gemm_rule + "}\n" + allreduce_rule + "}\n");
  expect_state(verdict, State::fail, 1);
  EXPECT_EQ(find(verdict, allreduce).status, Status::missing);
  EXPECT_EQ(find(verdict, allreduce).limit->value, 330);
}

TEST(Verdict, MissesAFamilyOfTheProfileThatNoRuleCouldJudge) {
  ResultsBuilder builder(16, 2);
  builder.add(gemm, "tflops", 700);
  const std::string rules = gemm_rule + "}\n" + allreduce_rule + ", hosts: 1}\n";
  const Verdict verdict = judged(builder, rules);
  expect_state(verdict, State::fail, 1);
  EXPECT_EQ(find(verdict, "allreduce").status, Status::missing);
  EXPECT_EQ(find(verdict, "allreduce").code, Code::not_measured);
  EXPECT_EQ(find(verdict, "allreduce").next, "mpirun -np 16 build/bench/bench_allreduce");
  expect_state(judge({builder.results()}, profile(rules, "unjudged: [allreduce]\n"), {}), State::pass, 0);
}

TEST(Verdict, MissesAMetricEvenInOneRepetition) {
  ResultsBuilder builder;
  builder.add(allreduce, "busbw_gb_per_s", 350).add(allreduce, "latency_us", 5000);
  EXPECT_EQ(find(judged(builder, allreduce_rule + "}\n"), allreduce).status, Status::missing);
}

TEST(Verdict, MissesRanksWithoutAValueAndNamesThem) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 700, {700, std::nullopt, 700, 700});
  const Verdict verdict = judged(builder, gemm_rule + "}\n");
  const Finding finding = find(verdict, gemm);
  EXPECT_EQ(finding.status, Status::missing);
  ASSERT_EQ(finding.offenders.size(), 1u);
  EXPECT_EQ(finding.offenders[0].rank, 1);
}

TEST(Verdict, AllowsAWaiverOnlyWhereTheRuleDoes) {
  ResultsBuilder builder;
  builder.add_waiver(gemm, "needs 300 GB").add(allreduce, "busbw_gb_per_s", 340);
  const Verdict refused = judged(builder, gemm_rule + "}\n" + allreduce_rule + "}\n");
  expect_state(refused, State::fail, 1);
  EXPECT_EQ(find(refused, gemm).status, Status::fail);
  const Verdict allowed = judged(builder, gemm_rule + ", may_waive: true}\n" + allreduce_rule + "}\n");
  expect_state(allowed, State::pass, 0);
  EXPECT_EQ(find(allowed, gemm).status, Status::waived);
  EXPECT_EQ(find(allowed, gemm).detail, "needs 300 GB");
  EXPECT_EQ(allowed.passed, allowed.total);
}

// Neither a pass nor a fault of the machine, whether a rule allows waivers, only warns, or does not exist.
TEST(Verdict, LeavesOpenWhatMissingSoftwareKeptFromBeingMeasured) {
  const std::string why = "attention needs cuDNN 9.18.1 or newer, and this is 9.5.0";
  ResultsBuilder builder;
  builder.add_waiver(gemm, why, Lack::software).add(allreduce, "busbw_gb_per_s", 340);
  for (const std::string& rules :
       {gemm_rule + "}\n", gemm_rule + ", may_waive: true}\n", gemm_rule + ", severity: warn}\n", std::string()}) {
    const Verdict verdict = judged(builder, rules + allreduce_rule + "}\n");
    EXPECT_EQ(verdict.exit_code, 3) << rules << verdict_line(verdict);
    const auto named = std::count_if(verdict.findings.begin(), verdict.findings.end(), [&](const Finding& f) {
      return f.key == gemm && f.counts() && f.status == Status::inconclusive &&
             f.detail.find(why) != std::string::npos && f.next.find("install") != std::string::npos;
    });
    EXPECT_EQ(named, 1) << rules;
  }
  expect_state(judged(builder, gemm_rule + "}\n" + allreduce_rule + "}\n"), State::inconclusive, 3);
}

TEST(Verdict, IsNoPassWhereEverythingWasWaived) {
  ResultsBuilder builder;
  builder.add_waiver(gemm, "needs 300 GB").add_waiver(allreduce, "has no links");
  const Verdict verdict = judged(builder, gemm_rule + ", may_waive: true}\n" + allreduce_rule + ", may_waive: true}\n");
  expect_state(verdict, State::fail, 1);
  EXPECT_EQ(find(verdict, "machine/profile").detail, "every rule of test was waived, so nothing was judged");
}

}  // namespace
}  // namespace shakedown::missing_values_test
