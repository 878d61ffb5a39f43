// Tests the value that is judged: of repetitions, of ranks, and at physical ceilings.
#include <limits>

#include "tests/thresholds/judged_rules.hpp"

namespace shakedown::repetitions_test {
namespace {

using namespace judged_rules;
using testing_support::profile;
using testing_support::ResultsBuilder;

TEST(Verdict, JudgesTheMedianOverRepetitions) {
  ResultsBuilder builder;
  builder.add(allreduce, "busbw_gb_per_s", 300)
      .add(allreduce, "busbw_gb_per_s", 340)
      .add(allreduce, "busbw_gb_per_s", 345);
  EXPECT_EQ(find(judged(builder, allreduce_rule + "}\n"), allreduce).value, 340);
}

TEST(Verdict, JudgesTheMedianOfEachRank) {
  ResultsBuilder builder(2);
  builder.add(gemm, "tflops", 600, {700, 600})
      .add(gemm, "tflops", 690, {690, 700})
      .add(gemm, "tflops", 630, {650, 630});
  const Finding finding = find(judged(builder, gemm_rule + "}\n"), gemm);
  EXPECT_EQ(finding.status, Status::pass);
  EXPECT_EQ(finding.value, 630);
  EXPECT_EQ(finding.worst->rank, 1);
}

TEST(Verdict, FailsForASpreadBetweenRanks) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 630, {700, 701, 702, 630});
  const Finding finding = find(judged(builder, gemm_rule + ", spread_max: 0.08}\n"), gemm);
  EXPECT_EQ(finding.status, Status::fail);
  EXPECT_EQ(finding.limit->kind, LimitKind::spread_max);
  EXPECT_NEAR(*finding.value, 72 / 700.5, 1e-9);
  EXPECT_EQ(finding.worst->rank, 3);
}

TEST(Verdict, FailsARowWithoutValuesOfWhichOnlyTheSpreadIsLimited) {
  const std::string rule =
      "  - {benchmark: \"" + gemm + "\", metric: tflops, every: rank, spread_max: 0.08, source: s}\n";
  for (const std::string message : {"wrong data on rank 1", "CUDA error: out of memory", "waived: needs 300 GB"}) {
    ResultsBuilder builder;
    builder.add_error(gemm, message).add("hbm/x:1", "hbm_gb_per_s", 4000);
    const Verdict verdict = judged(builder, rule);
    expect_state(verdict, State::fail, 1);
    const Finding finding = find(verdict, gemm);
    EXPECT_EQ(finding.status, Status::fail);
    EXPECT_TRUE(finding.counts());
    EXPECT_EQ(finding.value, std::nullopt);
    EXPECT_EQ(finding.limit->kind, LimitKind::spread_max);
    EXPECT_FALSE(finding.compared());
  }
}

TEST(Verdict, FailsWhereARepetitionHasAnErrorAndTheOthersKeepTheSpread) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 700, {700, 701, 702, 703}).add_error(gemm, "wrong data on rank 1", {1});
  const Verdict verdict =
      judged(builder, gemm_rule.substr(0, gemm_rule.find("min")) + "spread_max: 0.08, source: s}\n");
  expect_state(verdict, State::fail, 1);
  EXPECT_EQ(find(verdict, gemm).wrong_ranks, std::vector{1});
}

TEST(Verdict, MissesARepetitionThatWasWaivedAfterAnotherWasMeasured) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 700).add_waiver(gemm, "needs 300 GB");
  const Verdict verdict = judged(builder, gemm_rule + ", may_waive: true}\n");
  expect_state(verdict, State::fail, 1);
  EXPECT_EQ(find(verdict, gemm).status, Status::missing);
  EXPECT_TRUE(find(verdict, gemm).detail.starts_with("repetition 1 "));
  EXPECT_TRUE(find(verdict, gemm).detail.ends_with(": needs 300 GB"));
}

TEST(Verdict, MissesTheRanksOfACollectiveThatAreAllWithoutAValue) {
  ResultsBuilder builder;
  builder.add(allreduce, "busbw_gb_per_s", 340, testing_support::Values(4, std::nullopt));
  const Verdict verdict = judged(builder, allreduce_rule + "}\n");
  expect_state(verdict, State::fail, 1);
  EXPECT_EQ(find(verdict, allreduce).status, Status::missing);
}

TEST(Verdict, JudgesAnUpperLimitAndAnExactValue) {
  const std::string key = "counting/x:1";
  ResultsBuilder builder;
  builder.add(key, "samples", 25, {10, 25, 20, 10});
  const std::string rule = "  - {benchmark: \"" + key + "\", metric: samples, every: rank, source: s, ";
  const Verdict above = judged(builder, rule + "max: 22}\n");
  EXPECT_EQ(find(above, key).status, Status::fail);
  EXPECT_EQ(find(above, key).worst->rank, 1);
  const Verdict different = judged(builder, rule + "equals: 10}\n");
  EXPECT_EQ(find(different, key).offender_count, 2u);
  EXPECT_EQ(find(judged(builder, rule + "max: 30}\n"), key).status, Status::pass);
}

TEST(Verdict, IsInconclusiveWhenAPassDoesNotRepeat) {
  ResultsBuilder builder;
  builder.add(allreduce, "busbw_gb_per_s", 340, {}, {{"cv", 0.4}})
      .add(allreduce, "busbw_gb_per_s", 340, {}, {{"cv", 0.05}})
      .add(allreduce, "busbw_gb_per_s", 340, {}, {{"cv", 0.4}});
  const Verdict verdict = judged(builder, allreduce_rule + ", cv_max: 0.3}\n");
  expect_state(verdict, State::inconclusive, 3);
  EXPECT_EQ(find(verdict, allreduce).value, 0.4);
}

TEST(Verdict, StaysAFailureWhenItDoesNotRepeat) {
  ResultsBuilder builder;
  builder.add(allreduce, "busbw_gb_per_s", 300, {}, {{"cv", 0.4}}).repeated();
  expect_state(judged(builder, allreduce_rule + ", cv_max: 0.3}\n"), State::fail, 1);
}

TEST(Verdict, IsInconclusiveWhenRepeatabilityIsUnknown) {
  ResultsBuilder builder;
  builder.add(allreduce, "busbw_gb_per_s", 340);
  builder.rows.back().erase("cv");
  expect_state(judged(builder, allreduce_rule + ", cv_max: 0.3}\n"), State::inconclusive, 3);
}

TEST(Verdict, IsInvalidAboveThePhysicalCeiling) {
  const Verdict verdict = judged(ResultsBuilder().add(gemm, "tflops", 1100), gemm_rule + "}\n");
  expect_state(verdict, State::fail, 1);
  const Finding finding = find(verdict, gemm);
  EXPECT_EQ(finding.status, Status::invalid);
  EXPECT_EQ(finding.limit->value, 989.4);
  EXPECT_EQ(find(judged(ResultsBuilder().add(gemm, "tflops", 999), gemm_rule + "}\n"), gemm).status, Status::pass)
      << "1 % is rounding";
}

TEST(Verdict, SeesAnImpossibleValueThatAMedianHides) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 700).add(gemm, "tflops", 700, {700, 5000, 700, 700}).add(gemm, "tflops", 700);
  EXPECT_EQ(find(judged(builder, gemm_rule + "}\n"), gemm).status, Status::invalid);
}

TEST(Verdict, IsInvalidForAValueThatIsNoNumber) {
  // The reader refuses such a file, but the judge must not rely on that.
  for (const double value : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Results results = ResultsBuilder().add(allreduce, "busbw_gb_per_s", 340).results();
    results.rows[0].metrics["busbw_gb_per_s"] = value;
    EXPECT_EQ(find(judge({results}, profile(allreduce_rule + "}\n"), {}), allreduce).status, Status::invalid);
  }
}

}  // namespace
}  // namespace shakedown::repetitions_test
