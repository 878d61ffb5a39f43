// Tests which rules, profiles and families a verdict is about.
#include <algorithm>

#include "tests/thresholds/judged_rules.hpp"

namespace shakedown::scope_test {
namespace {

using namespace judged_rules;
using testing_support::profile;
using testing_support::ResultsBuilder;

TEST(Verdict, AppliesARuleOnlyUnderItsConditions) {
  ResultsBuilder builder;
  builder.add(allreduce, "busbw_gb_per_s", 350);
  const auto is_judged = [&](const std::string& conditions) {
    return has(judged(builder, allreduce_rule + ", " + conditions + "}\n"), allreduce);
  };
  EXPECT_TRUE(is_judged("ranks: 4"));
  EXPECT_TRUE(is_judged("ranks: [2, 8], hosts: 1, nvls: off, tier: quick"));
  EXPECT_FALSE(is_judged("ranks: 8"));
  EXPECT_FALSE(is_judged("hosts: 2"));
  EXPECT_FALSE(is_judged("nvls: on"));
  EXPECT_FALSE(is_judged("tier: full"));
}

TEST(Verdict, HasNoReferenceForAFamilyThatNoRuleJudges) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 700).add(allreduce, "busbw_gb_per_s", 350);
  const Verdict verdict = judged(builder, gemm_rule + "}\n" + allreduce_rule + ", ranks: 8}\n");
  expect_state(verdict, State::no_reference, 3);
  EXPECT_EQ(find(verdict, "allreduce").status, Status::no_reference);
  auto listed = profile(gemm_rule + "}\n", "unjudged: [allreduce]\n");
  expect_state(judge({builder.results()}, listed, {}), State::no_reference, 3);
  listed[0].excused = {"allreduce"};  // as the site file says
  const Verdict excused = judge({builder.results()}, listed, {});
  expect_state(excused, State::pass, 0);
  ASSERT_EQ(excused.unjudged.size(), 1u);
  EXPECT_EQ(excused.unjudged[0].value, 350);
}

TEST(Verdict, TakesAComparisonOfRanksForAJudgementOfAFamilyThatTheProfileHasNoRulesFor) {
  const auto rules = profile(gemm_rule + "}\n", "unjudged: [hbm]\n");
  const auto state = [&](int ranks) {
    return judge({ResultsBuilder(ranks).add(gemm, "tflops", 700).add("hbm/x:1", "hbm_gb_per_s", 4000).results()}, rules,
                 {})
        .state;
  };
  EXPECT_EQ(state(2), State::pass);
  EXPECT_EQ(state(1), State::no_reference) << "a rank alone has no peers";
  ResultsBuilder waived(1);
  waived.add(gemm, "tflops", 700).add_waiver("hbm/x:1", "no memory");
  EXPECT_EQ(judge({waived.results()}, rules, {}).state, State::pass) << "there is nothing to judge";
}

TEST(Verdict, HasNoReferenceForAFamilyThatOnlyAWarningJudges) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 700).add(allreduce, "busbw_gb_per_s", 100);
  for (const char* severity : {"warn", "info"}) {
    const Verdict verdict =
        judged(builder, gemm_rule + "}\n" + allreduce_rule + ", severity: " + std::string(severity) + "}\n");
    expect_state(verdict, State::no_reference, 3);
    EXPECT_EQ(find(verdict, "allreduce").status, Status::no_reference);
    EXPECT_EQ(find(verdict, allreduce).status, Status::fail) << "shown, as a warning";
  }
}

TEST(Verdict, ShowsAPointWithoutARuleAndChangesNothing) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 700).add("gemm/dtype:bf16/m:64/n:64/k:64", "tflops", 1);
  const Verdict verdict = judged(builder, gemm_rule + "}\n");
  expect_state(verdict, State::pass, 0);
  ASSERT_EQ(verdict.unjudged.size(), 1u);
  EXPECT_EQ(verdict.unjudged[0].key, "gemm/dtype:bf16/m:64/n:64/k:64");
}

TEST(Verdict, DoesNotPassOnFewerRulesBecauseNobodyRecordedNvls) {
  ResultsBuilder builder;
  builder.add(allreduce, "busbw_gb_per_s", 350).add("allreduce/dtype:f32/bytes:8", "latency_us", 8);
  builder.context.nccl.nvls = std::nullopt;
  const std::string rules =
      allreduce_rule + ", nvls: off}\n" +
      "  - {benchmark: \"allreduce/dtype:f32/bytes:8\", metric: latency_us, every: run, max: 30, source: s}\n";
  expect_state(judged(builder, rules), State::no_reference, 3);
}

TEST(Verdict, MissesAFamilyWhoseRulesHangOnNvls) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 700).context.nccl = {};
  const Verdict verdict = judged(builder, gemm_rule + "}\n" + allreduce_rule + ", nvls: off}\n");
  expect_state(verdict, State::fail, 1);
  EXPECT_EQ(find(verdict, "allreduce").status, Status::missing);
}

TEST(Verdict, ShowsAWarningAndDoesNotCountIt) {
  const Verdict verdict =
      judged(ResultsBuilder().add(gemm, "tflops", 700), gemm_rule + "}\n" + "  - {benchmark: \"" + gemm +
                                                            "\", metric: tflops, every: rank, min: 720, source: s, "
                                                            "severity: warn}\n");
  expect_state(verdict, State::pass, 0);
  EXPECT_EQ(verdict.findings.back().status, Status::fail);
  EXPECT_EQ(verdict_line(verdict), "VERDICT: PASS 8/8 (profile test, 4 ranks)");
}

TEST(PeerCopies, AreRequiredForEveryOrderedPair) {
  ResultsBuilder builder(2);
  builder.add(p2p, "copy_gb_per_s", 390, {std::nullopt, 390});
  const Verdict verdict = judged(builder, p2p_rule);
  expect_state(verdict, State::fail, 1);
  EXPECT_EQ(find(verdict, p2p).status, Status::pass);
  EXPECT_EQ(find(verdict, "p2p/op:read/engine:ce/src:1/dst:0/bytes:1073741824").status, Status::missing);
  EXPECT_EQ(verdict.total, 9u);
}

TEST(PeerCopies, NeedAValueOfEveryHost) {
  ResultsBuilder builder(4, 2);
  builder.add(p2p, "copy_gb_per_s", 390, {std::nullopt, 390, std::nullopt, std::nullopt});
  const Verdict verdict =
      judge({builder.results()}, profile(p2p_rule.substr(0, p2p_rule.size() - 2) + ", hosts: 2}\n"), {});
  const Finding finding = find(verdict, p2p);
  EXPECT_EQ(finding.status, Status::missing);
  ASSERT_EQ(finding.offenders.size(), 1u);
  EXPECT_EQ(finding.offenders[0].rank, 3);
}

TEST(PeerCopies, AreRightlyWaivedWhereNoHostHasTwoRanks) {
  ResultsBuilder builder(1);
  builder.add_waiver(p2p, "one rank on this host");
  const Verdict verdict = judged(builder, p2p_rule);
  expect_state(verdict, State::pass, 0);
  EXPECT_EQ(find(verdict, p2p).status, Status::waived);
  ResultsBuilder two(2);
  two.add_waiver(p2p, "no path");
  EXPECT_EQ(find(judged(two, p2p_rule), p2p).status, Status::fail) << "here there is a pair";
}

TEST(Profiles, MatchTheExactNameOfTheDevice) {
  ResultsBuilder builder(4, 1, "NVIDIA H200 NVL");
  builder.add(gemm, "tflops", 700);
  const Verdict verdict = judged(builder, gemm_rule + "}\n");
  expect_state(verdict, State::no_reference, 3);
  EXPECT_EQ(verdict.profile, "none");
  EXPECT_NE(find(verdict, "machine/profile").detail.find("\"NVIDIA H200 NVL\""), std::string::npos);
  ASSERT_EQ(verdict.unjudged.size(), 1u) << "the values are shown";
  EXPECT_EQ(verdict.unjudged[0].value, 700);
}

TEST(Profiles, DoNotMatchTwoOrMixedOrSlicedDevices) {
  auto builder = ResultsBuilder().add(gemm, "tflops", 700);
  auto profiles = profile(gemm_rule + "}\n");
  profiles.push_back(profiles[0]);
  profiles[1].name = "other";
  const Verdict two = judge({builder.results()}, profiles, {});
  expect_state(two, State::no_reference, 3);
  EXPECT_NE(find(two, "machine/profile").detail.find("test and other"), std::string::npos);
  builder.context.ranks[2].device = "NVIDIA H100 80GB HBM3";
  EXPECT_NE(find(judged(builder, gemm_rule + "}\n"), "machine/profile").detail.find("different kinds"),
            std::string::npos);
  ResultsBuilder mig(1, 1, "NVIDIA H200 MIG 1g.18gb");
  mig.add(gemm, "tflops", 90);
  EXPECT_NE(find(judged(mig, gemm_rule + "}\n"), "machine/profile").detail.find("MIG"), std::string::npos);
}

TEST(Family, IsJudgedWithoutTheOthers) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 700).add_error(allreduce, "wrong data");
  JudgeOptions options;
  options.families = {{"gemm"}};
  expect_state(judged(builder, gemm_rule + "}\n" + allreduce_rule + "}\n", options), State::partial, 3);
  options.families = {{"allreduce"}};
  expect_state(judged(builder, gemm_rule + "}\n" + allreduce_rule + "}\n", options), State::fail, 1);
}

TEST(Family, IsMissingOnceWhereNoRuleCouldJudgeIt) {
  ResultsBuilder builder(16, 2);
  builder.add(gemm, "tflops", 700);
  const std::string rules = gemm_rule + "}\n" + allreduce_rule + ", hosts: 1}\n";
  JudgeOptions options;
  options.families = {{"allreduce"}};
  const Verdict verdict = judged(builder, rules, options);
  expect_state(verdict, State::fail, 1);
  EXPECT_EQ(std::count_if(verdict.findings.begin(), verdict.findings.end(),
                          [](const Finding& f) { return f.key == "allreduce"; }),
            1);
  options.families = {{"gemm"}};
  expect_state(judged(builder, rules, options), State::partial, 3);
}

TEST(Family, IsMissingWhereNothingOfItWasMeasured) {
  JudgeOptions options;
  options.families = {{"p2p"}};
  const Verdict verdict = judged(ResultsBuilder().add(gemm, "tflops", 700), gemm_rule + "}\n", options);
  expect_state(verdict, State::fail, 1);
  EXPECT_EQ(find(verdict, "p2p").status, Status::missing);
  EXPECT_EQ(find(verdict, "p2p").next, "mpirun -np 4 build/bench/bench_p2p");
}

TEST(Family, IsMissingNextToAResultOfPairs) {
  ResultsBuilder builder(2, 1);
  builder.add(gemm, "tflops", 700).add_error("pairs/op:sendrecv/scope:any/round:0/bytes:8", waiver_text("one host"));
  JudgeOptions options;
  options.families = {{"p2p"}};
  expect_state(judged(builder, gemm_rule + "}\n", options), State::fail, 1);
}

TEST(Family, IsRefusedIfNothingKnowsIt) {
  JudgeOptions options;
  options.families = {{"gemm", "nosuch"}};
  EXPECT_THROW(judged(ResultsBuilder().add(gemm, "tflops", 700), gemm_rule + "}\n", options), InputError);
}

TEST(Family, ThatWasWaivedAsAWholeIsNoPassByItself) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 700).add_error("train_step/model:tiny/batch:1/seq:16", waiver_text("in the full tier"));
  const auto rules = profile(gemm_rule + "}\n", "unjudged: [train_step]\n");
  expect_state(judge({builder.results()}, rules, {}), State::pass, 0);
  JudgeOptions options;
  options.families = {{"train_step"}};
  const Verdict verdict = judge({builder.results()}, rules, options);
  expect_state(verdict, State::no_reference, 3);
  EXPECT_NE(find(verdict, "train_step").detail.find("was not measured on this machine"), std::string::npos);
}

Results asked_for(const FamilySet& families, ResultsBuilder builder = ResultsBuilder().add(gemm, "tflops", 700)) {
  Results results = builder.results();
  results.context.asked.families = families;
  return results;
}

const std::string two_rules = gemm_rule + "}\n" + allreduce_rule + "}\n";

TEST(Asked, FamiliesAloneArePartial) {
  const Verdict verdict = judge({asked_for({{"gemm"}})}, profile(two_rules), {});
  expect_state(verdict, State::partial, 3);
  EXPECT_TRUE(verdict_line(verdict).starts_with("VERDICT: PARTIAL 8/8 (profile test, 4 ranks, 1 of 2 families"));
}

TEST(Asked, FamiliesThatWereNotMeasuredAreMissing) {
  const Verdict verdict = judge({asked_for({{"gemm", "allreduce"}})}, profile(two_rules), {});
  expect_state(verdict, State::fail, 1);
  EXPECT_EQ(find(verdict, allreduce).status, Status::missing);
}

TEST(Asked, FamiliesOfSeveralFilesAddUpToAWholeRun) {
  const Results one = asked_for({{"gemm"}});
  const Results other = asked_for({{"allreduce"}}, ResultsBuilder().add(allreduce, "busbw_gb_per_s", 400));
  EXPECT_EQ(judge({one, other}, profile(two_rules), {}).state, State::pass);
}

TEST(Asked, RowsThatAFilterLeftOutAreNotMissing) {
  Results results = asked_for({{"gemm"}});
  const std::string more =
      gemm_rule +
      "}\n  - {benchmark: \"gemm/dtype:f32/m:64/n:64/k:64\", metric: tflops, every: rank, min: 1, source: s}\n";
  expect_state(judge({results}, profile(more), {}), State::fail, 1);
  results.context.asked.filter = "bf16";
  const Verdict verdict = judge({results}, profile(more), {});
  expect_state(verdict, State::partial, 3);
  EXPECT_EQ(verdict.filter, "bf16");
}

TEST(Asked, HostsOfTheRosterThatDidNotReportAreMissing) {
  Results results = ResultsBuilder().add(gemm, "tflops", 700).results();
  results.context.asked.roster = {{results.context.ranks.front().host, std::nullopt}, {"absent", std::nullopt}};
  const Verdict verdict = judge({results}, profile(gemm_rule + "}\n"), {});
  expect_state(verdict, State::fail, 1);
  EXPECT_EQ(find(verdict, "machine/hosts").offenders.at(0).host, "absent");
}

const std::string preflight_rule =
    "  - {benchmark: preflight/of:gpu, metric: xids, every: rank, equals: 0, source: s}\n";

TEST(Preflight, AloneIsFit) {
  ResultsBuilder builder;
  builder.add("preflight/of:gpu", "xids", 0);
  expect_state(judge({asked_for({{"preflight"}}, builder)}, profile(preflight_rule + gemm_rule + "}\n"), {}),
               State::fit, 0);
}

TEST(Preflight, ThatIsGoodStopsNothing) {
  ResultsBuilder builder;
  builder.add("preflight/of:gpu", "xids", 0);
  const Verdict verdict = judged(builder, preflight_rule + two_rules);
  expect_state(verdict, State::fail, 1);
  EXPECT_FALSE(has(verdict, "machine/preflight"));
}

}  // namespace
}  // namespace shakedown::scope_test
