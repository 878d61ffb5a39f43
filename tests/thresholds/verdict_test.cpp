// Tests whether a machine is accepted, and which parts a finding names.
#include "thresholds/judge/judge.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/thresholds/results_builder.hpp"
#include "thresholds/findings/attribution.hpp"

namespace shakedown::verdict_test {
namespace {

using testing_support::profile;
using testing_support::ResultsBuilder;

const std::string gemm = "gemm/dtype:bf16/m:8192/n:8192/k:8192";
const std::string allreduce = "allreduce/dtype:f32/bytes:1073741824";
const std::string p2p = "p2p/op:read/engine:ce/src:0/dst:1/bytes:1073741824";

const std::string gemm_rule = "  - {benchmark: \"" + gemm + "\", metric: tflops, every: rank, min: 620, source: s";
const std::string allreduce_rule =
    "  - {benchmark: \"" + allreduce + "\", metric: busbw_gb_per_s, every: run, min: 330, source: s";
const std::string p2p_rule =
    "  - {benchmark: \"p2p/op:read/engine:ce/src:*/dst:*/bytes:1073741824\", metric: copy_gb_per_s, every: rank, min: "
    "366, "
    "source: s}\n";

Verdict judged(const ResultsBuilder& builder, const std::string& rules, const JudgeOptions& options = {}) {
  return judge({builder.results()}, profile(rules), options);
}

Finding find(const Verdict& verdict, const std::string& key) {
  const auto& all = verdict.findings;
  const auto found = std::find_if(all.begin(), all.end(), [&](const Finding& f) { return f.key == key; });
  EXPECT_NE(found, all.end()) << key << " is not in the verdict";
  return found == all.end() ? Finding{} : *found;
}

bool has(const Verdict& verdict, const std::string& key) {
  return std::any_of(verdict.findings.begin(), verdict.findings.end(), [&](const Finding& f) { return f.key == key; });
}

void expect_state(const Verdict& verdict, State state, int exit_code) {
  EXPECT_EQ(name(verdict.state), name(state)) << verdict_line(verdict);
  EXPECT_EQ(verdict.exit_code, exit_code);
}

// --- the whole ---

TEST(Verdict, PassesAMachineThatMeetsEveryLimit) {
  const Verdict verdict = judged(ResultsBuilder().add(gemm, "tflops", 700), gemm_rule + "}\n");
  expect_state(verdict, State::pass, 0);
  EXPECT_EQ(verdict_line(verdict), "VERDICT: PASS 8/8 (profile test, 4 ranks)");
  EXPECT_EQ(find(verdict, gemm).value, 700);
}

TEST(Verdict, SaysHowManyHostsAndHowManyFamiliesWereJudged) {
  ResultsBuilder builder(4, 2);
  builder.add(gemm, "tflops", 700).add("hbm/x:1", "hbm_gb_per_s", 4000);
  const Verdict verdict = judged(builder, gemm_rule + ", hosts: [1, 9]}\n");
  EXPECT_EQ(verdict_line(verdict),
            "VERDICT: NO REFERENCE 8/9 (profile test, 4 ranks, 2 hosts, 1 of 2 families judged)");
  JudgeOptions one_family;
  one_family.families = {{"gemm"}};
  EXPECT_EQ(verdict_line(judged(builder, gemm_rule + ", hosts: [1, 9]}\n", one_family)),
            "VERDICT: PARTIAL 8/8 (profile test, 4 ranks, 2 hosts, 1 of 2 families, as asked)");
}

TEST(Verdict, FailsAndNamesTheRankBelowTheFloor) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 600, {700, 690, 710, 600});
  const Verdict once = judged(builder, gemm_rule + "}\n");
  expect_state(once, State::inconclusive, 3);  // nothing confirms it
  EXPECT_EQ(find(once, gemm).sure, Sure::once);
  builder.repeated();
  const Verdict verdict = judged(builder, gemm_rule + "}\n");
  expect_state(verdict, State::fail, 1);
  EXPECT_EQ(verdict_line(verdict), "VERDICT: FAIL 7/8 (profile test, 4 ranks)");
  const Finding finding = find(verdict, gemm);
  EXPECT_EQ(finding.status, Status::fail);
  EXPECT_EQ(finding.value, 600);
  EXPECT_EQ(finding.limit->value, 620);
  EXPECT_EQ(finding.limit->kind, LimitKind::min);
  EXPECT_EQ(finding.unit, "TFLOPS");
  EXPECT_EQ(finding.offender_count, 1u);
  EXPECT_EQ(text(*finding.worst), "rank 3 node0 GPU-1003 0000:13:00.0");
  EXPECT_EQ(finding.next,
            "mpirun -np 4 build/bench/bench_gemm --benchmark_filter='^gemm/dtype:bf16/m:8192/n:8192/k:8192(/|$)'");
  EXPECT_NE(finding.rule_at.find("test.yaml:6"), std::string::npos);
  EXPECT_EQ(finding.code, Code::limit);
  EXPECT_EQ(finding.sure, Sure::twice);
  EXPECT_EQ(finding.part.kind, PartKind::gpu);
  EXPECT_EQ(finding.part.id, "GPU-1003");
  EXPECT_EQ(finding.part.host, "node0");
}

TEST(Verdict, NamesTheEndsOfASlowLinkAtEitherOfThem) {
  const std::string rule =
      "  - {benchmark: \"p2p/op:read/engine:ce/dir:both/src:0/dst:1/bytes:8\", metric: "
      "copy_gb_per_s, every: rank, min: 366, source: s}\n";
  for (const auto& [source, destination] : {std::pair{400.0, 100.0}, {100.0, 400.0}}) {
    ResultsBuilder builder(2);
    builder.add("p2p/op:read/engine:ce/dir:both/src:0/dst:1/bytes:8", "copy_gb_per_s", 100, {source, destination});
    const Finding finding = find(judged(builder, rule), "p2p/op:read/engine:ce/dir:both/src:0/dst:1/bytes:8");
    EXPECT_EQ(finding.part.kind, PartKind::link);
    EXPECT_EQ(finding.part.id, "GPU-1000 > GPU-1001");
  }
}

TEST(Verdict, SaysWhatKindOfFindingIsMadeWithoutAMeasurement) {
  const Verdict verdict = judged(ResultsBuilder().add("hbm/x:1", "hbm_gb_per_s", 4000), gemm_rule + "}\n");
  const Finding missing = find(verdict, gemm);
  EXPECT_EQ(missing.code, Code::not_measured);
  EXPECT_FALSE(missing.sure);
  EXPECT_EQ(missing.part.kind, PartKind::run);
  EXPECT_EQ(find(verdict, "hbm").code, Code::no_reference);
  const Finding ranks = find(verdict, "machine/ranks");
  EXPECT_EQ(ranks.code, Code::ranks);
  EXPECT_EQ(ranks.sure, Sure::event);
}

TEST(Attribution, MakesANewFindingAndLeavesTheOthers) {
  std::vector<Finding> findings(2);
  findings[1].detail = "seen";
  findings[1].worst = host_culprit("node1");
  findings[1].part = host_part("node1");
  const auto made = attributed(findings, {{.finding = 1,
                                           .status = Status::inconclusive,
                                           .severity = Severity::warn,
                                           .offenders = std::vector{host_culprit("node2"), host_culprit("node3")},
                                           .part = host_part("node2"),
                                           .reason = "measured once"}});
  EXPECT_EQ(made[0].status, Status::pass);
  EXPECT_EQ(made[1].status, Status::inconclusive);
  EXPECT_EQ(made[1].severity, Severity::warn);
  EXPECT_EQ(made[1].worst->host, "node2");
  EXPECT_EQ(made[1].part.id, "node2");
  EXPECT_EQ(made[1].offender_count, 2U);
  EXPECT_EQ(made[1].detail, "seen; measured once");
  EXPECT_EQ(findings[1].detail, "seen") << "the finding itself stays as it was";
}

TEST(Verdict, CountsAllOffendersAndNamesTenWorstFirst) {
  ResultsBuilder builder(32);
  testing_support::Values values(32, 700);
  for (std::size_t rank = 0; rank < 12; ++rank) values[rank] = 500 + static_cast<double>(rank);
  builder.add(gemm, "tflops", 500, values);
  const Verdict verdict = judged(builder, gemm_rule + "}\n");
  const Finding finding = find(verdict, gemm);
  EXPECT_EQ(finding.offender_count, 12u);
  ASSERT_EQ(finding.offenders.size(), 10u);
  EXPECT_EQ(finding.offenders[0].rank, 0);
  EXPECT_EQ(finding.offenders[9].value, 509);
}

TEST(Verdict, OfFewerSamplesThanARuleAsksForIsInvalid) {
  const auto of = [](const std::vector<double>& samples) {
    ResultsBuilder builder;
    for (const double each : samples) builder.add(gemm, "tflops", 700, {}, {{"samples", each}});
    return find(judged(builder, gemm_rule + ", samples_min: 10}\n"), gemm);
  };
  EXPECT_EQ(of({10}).status, Status::pass);
  EXPECT_EQ(of({20, 10, 25}).status, Status::pass);
  const auto few = of({20, 5, 4});
  EXPECT_EQ(few.status, Status::invalid);
  EXPECT_EQ(few.value, 5) << "the first repetition that has too few";
  EXPECT_EQ(few.limit->kind, LimitKind::samples_min);
  EXPECT_NE(few.detail.find("fewer samples than required: 5 of 10"), std::string::npos) << few.detail;
}

TEST(Verdict, AcceptsAValueAtItsLimit) {
  const auto status_of = [](double value, const std::string& limit) {
    ResultsBuilder builder;
    builder.add("counting/x:1", "samples", value);
    const auto verdict =
        judged(builder, "  - {benchmark: \"counting/x:1\", metric: samples, every: rank, source: s, " + limit + "}\n");
    return find(verdict, "counting/x:1").status;
  };
  EXPECT_EQ(status_of(20, "min: 20"), Status::pass);
  EXPECT_EQ(status_of(10, "min: 20"), Status::fail);
  EXPECT_EQ(status_of(20, "max: 20"), Status::pass);
  EXPECT_EQ(status_of(25, "max: 20"), Status::fail);
  EXPECT_EQ(status_of(20, "equals: 20"), Status::pass);
  EXPECT_EQ(status_of(10, "equals: 20"), Status::fail);
  EXPECT_EQ(status_of(25, "equals: 20"), Status::fail);
}

TEST(Verdict, AcceptsASpreadAndAScatterAtTheirLimits) {
  const auto status_of = [](const std::string& limit, double low, double cv) {
    ResultsBuilder builder;
    builder.add(gemm, "tflops", low, {low, 750, 750, 800}, {{"cv", cv}});
    return find(judged(builder, gemm_rule + ", " + limit + "}\n"), gemm).status;
  };
  EXPECT_EQ(status_of("spread_max: 0.2", 650, 0.001), Status::pass) << "150 of 750";
  EXPECT_EQ(status_of("spread_max: 0.2", 649, 0.001), Status::fail);
  EXPECT_EQ(status_of("cv_max: 0.0625", 700, 0.0625), Status::pass);
  EXPECT_EQ(status_of("cv_max: 0.0625", 700, 0.0626), Status::inconclusive);
}

TEST(Verdict, AcceptsALaterVersionAndTheOneThatIsAskedFor) {
  const auto status_of = [](const std::string& version) {
    ResultsBuilder builder;
    builder.add_facts("preflight/of:software", {}, {{"nccl", {version, version, version, version}}});
    const std::string rule =
        "  - {benchmark: \"preflight/of:software\", metric: nccl, every: rank, at_least: "
        "\"2.27.3\", source: s}\n";
    return find(judged(builder, rule), "preflight/of:software").status;
  };
  for (const char* good : {"2.27.3", "2.27.3.1", "2.27.10", "2.28", "2.28.0", "3"}) {
    EXPECT_EQ(status_of(good), Status::pass) << good;
  }
  for (const char* old : {"2.27.2", "2.27", "2.9.3", "1.99.9", "2"}) EXPECT_EQ(status_of(old), Status::fail) << old;
}

/// Returns the finding of a rule with these limits on the numbers of four ranks; rank 1 was at its power limit.
Finding counted(const testing_support::Values& values, const std::string& limits, const std::string& every = "rank") {
  ResultsBuilder builder;
  builder.add("counting/x:1", "samples", 25, values).throttle(1, {{"sw_power_cap", 0.5}});
  return find(judged(builder, "  - {benchmark: \"counting/x:1\", metric: samples, every: " + every + ", source: s, " +
                                  limits + "}\n"),
              "counting/x:1");
}

TEST(Verdict, ExplainsAFailureAndNothingElse) {
  const auto low = counted({25, 10, 25, 25}, "min: 20");
  EXPECT_EQ(low.status, Status::fail);
  EXPECT_EQ(low.detail.rfind("-50 %: ", 0), 0u) << low.detail;
  EXPECT_EQ(counted({25, 25, 25, 25}, "max: 20").detail.find("-"), std::string::npos);
  EXPECT_EQ(counted({10, 25, 10, 10}, "max: 20").detail.rfind("+25 %: ", 0), 0u);
  EXPECT_EQ(counted({25, 10, 25, 25}, "min: 10").detail, "") << "it passes";
  EXPECT_EQ(counted({25, std::nullopt, 25, 25}, "min: 10").detail, "ranks without a value");
  const auto nothing_allowed = counted({20, 25, 20, 20}, "max: 0").detail;
  EXPECT_NE(nothing_allowed, "");
  EXPECT_EQ(nothing_allowed.find("inf"), std::string::npos) << nothing_allowed;
  EXPECT_EQ(counted({25, 19.99, 25, 25}, "min: 20").detail.find('+'), std::string::npos);
}

TEST(Verdict, ShowsTheLimitThatIsMissedElseTheFirst) {
  const auto kind = [](double value, const std::string& limits, const std::string& every) {
    return counted(testing_support::Values(4, value), limits, every).limit->kind;
  };
  EXPECT_EQ(kind(25, "min: 10, max: 50", "rank"), LimitKind::min);
  EXPECT_EQ(kind(25, "min: 10, max: 20", "rank"), LimitKind::max);
  EXPECT_EQ(kind(25, "min: 10, max: 20", "run"), LimitKind::max);
  const auto one_of_four = counted({10, 25, 10, 10}, "min: 5, max: 20");
  EXPECT_EQ(one_of_four.limit->kind, LimitKind::max);
  EXPECT_EQ(one_of_four.limit->value, 20);
  EXPECT_EQ(one_of_four.value, 25);
  const auto spread = counted({25, 10, 25, 25}, "spread_max: 0.5");
  EXPECT_EQ(spread.status, Status::fail);
  EXPECT_EQ(spread.offender_count, 1u);
  const auto missing = [](const std::string& limit) {
    const Finding f =
        find(judged(ResultsBuilder().add(gemm, "tflops", 700),
                    "  - {benchmark: \"counting/x:1\", metric: samples, every: rank, source: s, " + limit + "}\n"),
             "counting/x:1");
    EXPECT_EQ(f.status, Status::missing);
    return f.limit->kind;
  };
  EXPECT_EQ(missing("min: 20"), LimitKind::min);
  EXPECT_EQ(missing("max: 20"), LimitKind::max);
  EXPECT_EQ(missing("equals: 20"), LimitKind::equals);
  EXPECT_EQ(missing("spread_max: 0.1"), LimitKind::spread_max);
}

TEST(Verdict, NamesTheRepetitionOfAnErrorWhereThereAreSeveral) {
  EXPECT_EQ(find(judged(ResultsBuilder().add_error(gemm, "wrong data"), gemm_rule + "}\n"), gemm).detail, "wrong data");
}

TEST(Verdict, NamesTheMetricThatCannotBeTrueWhereItIsAnother) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 5000);
  const auto finding = find(judged(builder, gemm_rule + "}\n"), gemm);
  EXPECT_EQ(finding.status, Status::invalid);
  EXPECT_NE(finding.detail.rfind("tflops: ", 0), 0u) << finding.detail;
  const auto other = find(
      judged(builder, "  - {benchmark: \"" + gemm + "\", metric: samples, every: run, min: 1, source: s}\n"), gemm);
  EXPECT_EQ(other.status, Status::invalid);
  EXPECT_EQ(other.detail, "tflops: " + finding.detail);
}

/// Returns the finding of a rule on a fact of GPUs, with these numbers and texts by rank.
Finding of_fact(const std::string& limits, const testing_support::Values& numbers,
                const std::vector<std::optional<std::string>>& texts = {}, const testing_support::Values& beside = {}) {
  ResultsBuilder builder;
  ByRank of_numbers{{"pcie_width", numbers}};
  TextByRank of_texts;
  if (!texts.empty()) of_texts["pcie_width"] = texts;
  if (!beside.empty()) of_numbers["pcie_gen"] = beside;
  builder.add_facts("preflight/of:gpu", of_numbers, of_texts);
  return find(judged(builder, "  - {benchmark: \"preflight/of:gpu\", metric: pcie_width, every: rank, source: s, " +
                                  limits + "}\n"),
              "preflight/of:gpu");
}

TEST(Verdict, NamesTheRanksWithAnotherTextThanIsAskedFor) {
  for (const std::string limit : {"at_least: \"2\"", "same: true"}) {
    const auto with = [&](const std::string& of_rank_2) {
      ResultsBuilder builder;
      builder.add_facts("preflight/of:software", {}, {{"nccl", {"2.1", "2.1", of_rank_2, "2.1"}}});
      return find(judged(builder, "  - {benchmark: \"preflight/of:software\", metric: nccl, every: rank, source: s, " +
                                      limit + "}\n"),
                  "preflight/of:software");
    };
    EXPECT_EQ(with("2.1").status, Status::pass) << limit;
    const auto failing = with("1.9");
    EXPECT_EQ(failing.status, Status::fail) << limit;
    ASSERT_EQ(failing.offenders.size(), 1u) << limit;
    EXPECT_EQ(failing.offenders[0].rank, 2) << limit;
  }
}

TEST(Verdict, MissesATextThatNoRankHas) {
  for (const std::string limit : {"at_least: \"2\"", "same: true"}) {
    ResultsBuilder builder;
    builder.add_facts("preflight/of:software", {}, {{"cuda", {"13", "13", "13", "13"}}});
    const auto finding = find(judged(builder,
                                     "  - {benchmark: \"preflight/of:software\", metric: nccl, every: rank, "
                                     "source: s, " +
                                         limit + "}\n"),
                              "preflight/of:software");
    EXPECT_EQ(finding.status, Status::missing) << limit;
  }
}

TEST(Verdict, MissesANumberWithoutTheReasonsWhereOnlyAllMustHaveTheSame) {
  const auto silent =
      of_fact("same: true", {16, std::nullopt, 16, 16}, {std::nullopt, "no driver", std::nullopt, std::nullopt});
  EXPECT_EQ(silent.status, Status::missing);
  EXPECT_EQ(silent.detail, "ranks without a value");
  const auto with_limit =
      of_fact("min: 16", {16, std::nullopt, 16, 16}, {std::nullopt, "no driver", std::nullopt, std::nullopt});
  EXPECT_EQ(with_limit.status, Status::missing);
  EXPECT_EQ(with_limit.detail, "ranks without a value; no driver");
}

TEST(Verdict, AsksOnlyRanksThatHaveTheFactBesideTheRules) {
  const std::string rule = "min: 16, where: pcie_gen";
  EXPECT_EQ(of_fact(rule, {16, std::nullopt, 16, 16}, {}, {5, 0, 5, 5}).status, Status::pass);
  EXPECT_EQ(of_fact(rule, {16, 8, 16, 16}, {}, {5, 0, 5, 5}).status, Status::pass);
  EXPECT_EQ(of_fact(rule, {16, 8, 16, 16}, {}, {5, std::nullopt, 5, 5}).status, Status::pass);
  EXPECT_EQ(of_fact(rule, {16, std::nullopt, 16, 16}, {}, {5, 5, 5, 5}).status, Status::missing);
  const auto narrow = of_fact(rule, {16, 8, 4, 16}, {}, {5, 5, 0, 5});
  EXPECT_EQ(narrow.status, Status::fail);
  ASSERT_EQ(narrow.offenders.size(), 1u);
  EXPECT_EQ(narrow.offenders[0].rank, 1);
}

TEST(Verdict, NamesTheValueFarthestFromAnExactOneWorst) {
  ResultsBuilder builder;
  builder.add("counting/x:1", "samples", 10, {10, 12, 5, 13});
  const auto finding = find(judged(builder,
                                   "  - {benchmark: \"counting/x:1\", metric: samples, every: rank, source: "
                                   "s, equals: 10}\n"),
                            "counting/x:1");
  ASSERT_EQ(finding.offenders.size(), 3u);
  EXPECT_EQ(finding.offenders[0].rank, 2);
  EXPECT_EQ(finding.offenders[1].rank, 3);
  EXPECT_EQ(finding.offenders[2].rank, 1);
}

TEST(Verdict, TakesNumbersWithinAHundredthOfTheMiddleOneForTheSame) {
  const auto offenders = [](double odd) {
    ResultsBuilder builder;
    builder.add_facts("preflight/of:gpu", {{"memory_gb", {1000, 1000, odd, 1000}}}, {});
    const std::string rule =
        "  - {benchmark: \"preflight/of:gpu\", metric: memory_gb, every: rank, same: true, source: s}\n";
    return find(judged(builder, rule), "preflight/of:gpu").offenders;
  };
  EXPECT_TRUE(offenders(990).empty());
  EXPECT_TRUE(offenders(1010).empty());
  ASSERT_EQ(offenders(989).size(), 1u);
  EXPECT_EQ(offenders(989)[0].rank, 2);
  EXPECT_EQ(offenders(1011).size(), 1u);
}

TEST(Verdict, TellsDcgmsLevelWithTheCommandThatAsksItAgain) {
  const auto next = [](const std::string& word, const std::string& of, const std::string& every,
                       const std::string& metric) {
    const std::string key = "preflight/of:" + of;
    ResultsBuilder builder;
    builder.context.argv = {"bench_preflight", word, "--tier=quick"};
    builder.add_facts(key, {{metric, {1, 1, 1, 1}}}, {});
    const auto finding = find(judged(builder, "  - {benchmark: \"" + key + "\", metric: " + metric +
                                                  ", every: " + every + ", equals: 0, source: s}\n"),
                              key);
    EXPECT_EQ(finding.status, Status::fail);
    return finding.next;
  };
  for (const auto& [of, every] : {std::pair{"dcgm", "host"}, {"dcgm_gpu", "rank"}}) {
    const auto plain = next("--retune", of, every, "dcgm_failed");
    EXPECT_NE(plain, "");
    for (const std::string level : {"--dcgm=1", "--dcgm=2", "--dcgm=3"}) {
      EXPECT_EQ(next(level, of, every, "dcgm_failed"), plain + " " + level);
    }
    for (const auto* other : {"--dcgm", "--dcgm=", "--dcgm=0", "--dcgm=4", "--dcgm=11", "--dcgm=;", "--tier=1"}) {
      EXPECT_EQ(next(other, of, every, "dcgm_failed"), plain) << other;
    }
  }
  EXPECT_EQ(next("--dcgm=2", "gpu", "rank", "xids").find("--dcgm"), std::string::npos) << "no other row needs it";
}

TEST(Verdict, SaysFourReasonsWhyRanksHaveNoValueAndHowManyMoreThereAre) {
  const auto detail = [](int ranks) {
    ResultsBuilder builder(ranks);
    std::vector<std::optional<std::string>> reasons;
    for (int rank = 0; rank < ranks; ++rank) reasons.emplace_back("reason " + std::to_string(rank));
    builder.add_facts("preflight/of:gpu", {{"pcie_width", testing_support::Values(reasons.size())}},
                      {{"pcie_width", reasons}});
    return find(judged(builder,
                       "  - {benchmark: \"preflight/of:gpu\", metric: pcie_width, every: rank, min: 1, source: s}\n"),
                "preflight/of:gpu")
        .detail;
  };
  EXPECT_NE(detail(4).find("reason 3"), std::string::npos) << detail(4);
  EXPECT_EQ(detail(4).find("more"), std::string::npos) << detail(4);
  EXPECT_NE(detail(6).find("reason 3"), std::string::npos) << detail(6);
  EXPECT_EQ(detail(6).find("reason 4"), std::string::npos) << detail(6);
  EXPECT_NE(detail(6).find("and 2 more"), std::string::npos) << detail(6);
}

TEST(Verdict, MissesATextThatARankDoesNotHave) {
  for (const auto* limit : {"same: true", "at_least: \"2.27\""}) {
    const auto judged_with = [&](const std::optional<std::string>& of_rank_1) {
      ResultsBuilder builder;
      builder.add_facts("preflight/of:software", {}, {{"nccl", {"2.27.3", of_rank_1, "2.27.3", "2.27.3"}}});
      return find(
          judged(builder, std::string("  - {benchmark: \"preflight/of:software\", metric: nccl, every: rank, ") +
                              limit + ", source: s}\n"),
          "preflight/of:software");
    };
    EXPECT_EQ(judged_with("2.27.3").status, Status::pass) << limit;
    const auto missing = judged_with(std::nullopt);
    EXPECT_EQ(missing.status, Status::missing) << limit;
    EXPECT_EQ(missing.detail, "ranks without a value") << limit;
    ASSERT_TRUE(missing.worst) << limit;
    EXPECT_EQ(missing.worst->rank, 1) << limit;
  }
}

constexpr const char* step = "lora_step/model:qwen2_7b/batch:2/seq:4096";

TEST(Verdict, PutsTheModelFlopsOfATrainingStepBesideThePeak) {
  const std::string rule =
      "  - {benchmark: \"" + std::string(step) + "\", metric: mfu, every: run, min: 0.6, source: s}\n";
  ResultsBuilder builder;
  builder.add(step, "tokens_per_s", 494.7e3 / 32.13, {}, {{"model_tflops", 494.7}});
  const Finding half = find(judged(builder, rule), step);
  EXPECT_EQ(half.status, Status::fail);
  EXPECT_NEAR(*half.value, 0.5, 1e-12);
  ResultsBuilder without;
  without.add(step, "tokens_per_s", 18000);
  EXPECT_EQ(find(judged(without, rule), step).status, Status::missing);
  ResultsBuilder wrong;
  wrong.add(step, "tokens_per_s", 90000, {}, {{"model_tflops", 2000}});
  EXPECT_EQ(find(judged(wrong, rule), step).status, Status::invalid);
}

TEST(Verdict, NamesTheRankThatIsSlowestAloneWhenAStepOfAllIsSlow) {
  ResultsBuilder builder;
  builder.add(step, "tokens_per_s", 15000, {15000, 15001, 14999, 15000}).by_rank("compute_ms", {430, 430, 432, 540});
  const Finding finding = find(judged(builder, "  - {benchmark: \"" + std::string(step) +
                                                   "\", metric: tokens_per_s, every: run, min: 17000, source: s}\n"),
                               step);
  EXPECT_EQ(finding.status, Status::fail);
  ASSERT_TRUE(finding.worst);
  EXPECT_EQ(finding.worst->rank, 3);
}

TEST(Verdict, IsHostOnlyWhereNoGpuWasJudged) {
  const auto results = ResultsBuilder::host().add("gemm/dtype:f32/m:1/n:1/k:1", "tflops", 0.1).results();
  const testing_support::Folder folder;
  const auto profiles = load_profiles(folder.write(
      "host.yaml",
      "schema: 2\nprofile: host\nmatch: {backend: host}\nrules:\n"
      "  - {benchmark: \"gemm/dtype:f32/m:1/n:1/k:1\", metric: tflops, every: rank, min: 0.01, source: s}\n"));
  const Verdict verdict = judge({results}, profiles, {});
  expect_state(verdict, State::host_only, 0);
  EXPECT_EQ(verdict_line(verdict), "VERDICT: HOST-ONLY 6/6 (profile host, 2 ranks)");
}

TEST(Verdict, IsNeverHostOnlyWhereGpusAreOnTheBus) {
  auto builder = ResultsBuilder::host();
  builder.add("gemm/dtype:f32/m:1/n:1/k:1", "tflops", 0.1).context.inventory[0].pci_gpus = 1;
  expect_state(judge({builder.results()}, {}, {}), State::fail, 1);
}

TEST(Verdict, IsNeverHostOnlyWhereTheBusIsUnknown) {
  auto builder = ResultsBuilder::host();
  builder.add("gemm/dtype:f32/m:1/n:1/k:1", "tflops", 0.1).context.inventory[0].pci_gpus = std::nullopt;
  expect_state(judge({builder.results()}, {}, {}), State::incomplete, 3);
}

TEST(Verdict, FailsWhenCudaDoesNotWork) {
  ResultsBuilder builder(1);
  builder.add_error(gemm, "cudaErrorNoDevice: no CUDA-capable device is detected").context.ranks[0].device = "unknown";
  const Verdict verdict = judged(builder, gemm_rule + "}\n");
  expect_state(verdict, State::fail, 1);
  EXPECT_NE(find(verdict, gemm).detail.find("no CUDA-capable device"), std::string::npos);
}

TEST(Verdict, IsIncompleteWhenTheRunBrokeOff) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 700).context.complete = false;
  expect_state(judged(builder, gemm_rule + "}\n"), State::incomplete, 3);
}

TEST(Verdict, RefusesAnInjectedFaultUnlessItIsAllowed) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 700).context.fault = "slow:10@1";
  EXPECT_THROW(judged(builder, gemm_rule + "}\n"), InputError);
  JudgeOptions options;
  options.allow_faults = true;
  const Verdict verdict = judged(builder, gemm_rule + "}\n", options);
  expect_state(verdict, State::pass, 0);
  EXPECT_EQ(find(verdict, "machine/fault").status, Status::fail) << "shown, as a warning";
}

TEST(Verdict, RefusesToJudgeNothing) { EXPECT_THROW(judge({}, {}, {}), InputError); }

TEST(Verdict, SaysThatNobodyHasJudgedHeatWhereNoRowTellsOfIt) {
  ResultsBuilder builder;
  builder.add("gemm/dtype:bf16/m:8192/n:8192/k:8192", "tflops", 700);
  EXPECT_TRUE(judge({builder.results()}, {}, {}).notes.empty());
  builder.context.telemetry = "every 10 ms";
  const auto notes = judge({builder.results()}, {}, {}).notes;
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].rfind("no row has throttle reasons although sensors were read", 0), 0u);
  ResultsBuilder tells;
  tells.context.telemetry = "every 10 ms";
  tells.add("gemm/dtype:bf16/m:8192/n:8192/k:8192", "tflops", 700, {}, {{"throttled", 0}});
  EXPECT_TRUE(judge({tells.results()}, {}, {}).notes.empty());
}

TEST(Verdict, SaysThatRunsWereMixed) {
  auto first = ResultsBuilder().add(gemm, "tflops", 700);
  auto second = ResultsBuilder().add("hbm/x:1", "hbm_gb_per_s", 4000);
  second.context.run_id = "run-2";
  JudgeOptions options;
  options.mixed_runs = true;
  const Verdict verdict =
      judge({first.results(), second.results()}, profile(gemm_rule + "}\n", "unjudged: [hbm]\n"), options);
  expect_state(verdict, State::pass, 0);
  EXPECT_EQ(verdict.notes.size(), 1u);
  EXPECT_EQ(verdict.run_ids.size(), 2u);
}

// --- errors, waivers, values that are not there ---

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
  EXPECT_EQ(find(verdict, "allreduce").detail, "was not measured");
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

// --- repetitions and ranks ---

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
  EXPECT_EQ(find(verdict, gemm).detail, "repetition 1 was waived, but another was measured: needs 300 GB");
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
  builder.add(allreduce, "busbw_gb_per_s", 300, {}, {{"cv", 0.4}});
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

// --- whom to name ---

TEST(Verdict, NamesTheSlowestRankOfLocalWork) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 600).seconds({0.1, 0.3, 0.1, 0.1});
  const std::string rule = "  - {benchmark: \"" + gemm + "\", metric: tflops, every: run, min: 620, source: s}\n";
  const Verdict verdict = judged(builder, rule);
  EXPECT_EQ(find(verdict, gemm).worst->rank, 1);
  EXPECT_EQ(find(verdict, gemm).offender_count, 1u);
  EXPECT_EQ(find(verdict, gemm).detail.find("last to arrive"), std::string::npos);
}

TEST(Verdict, NamesTheLastToArriveOfACollective) {
  ResultsBuilder builder;
  builder.add(allreduce, "busbw_gb_per_s", 100).seconds({0.30, 0.31, 0.05, 0.30});
  builder.by_rank("arrival_us", {0, 2, 240000, 1});
  const Verdict verdict = judged(builder, allreduce_rule + "}\n");
  ASSERT_TRUE(find(verdict, allreduce).worst.has_value());
  EXPECT_EQ(find(verdict, allreduce).worst->rank, 2) << "it came later and waits least";
  EXPECT_EQ(find(verdict, allreduce).offender_count, 1u);
  EXPECT_NE(find(verdict, allreduce).detail.find("last to arrive"), std::string::npos);
}

TEST(Verdict, NamesNobodyWhereAllArriveTogether) {
  for (const testing_support::Values& seconds :
       {testing_support::Values{0.300, 0.310, 0.299, 0.300}, {0.30, 0.31, 0.05, 0.30}}) {
    ResultsBuilder builder;
    builder.add(allreduce, "busbw_gb_per_s", 100).seconds(seconds).by_rank("arrival_us", {0, 2, 40, 1});
    const Verdict verdict = judged(builder, allreduce_rule + "}\n");
    EXPECT_EQ(find(verdict, allreduce).status, Status::fail);
    EXPECT_FALSE(find(verdict, allreduce).worst.has_value()) << *seconds[2] << " s says nothing without its arrival";
  }
}

TEST(VerdictCulprits, LeaveOutWhatIsUnknown) {
  EXPECT_EQ(text(Culprit{3, "node7", "GPU-4f2a", "0000:1b:00.0", {}}), "rank 3 node7 GPU-4f2a 0000:1b:00.0");
  EXPECT_EQ(text(Culprit{3, "node7", {}, {}, {}}), "rank 3 node7");
  EXPECT_EQ(text(Culprit{{}, "node7", {}, {}, {}}), "node7");
}

// --- conditions ---

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

// --- peer copies ---

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

// --- which profile ---

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

// --- one family ---

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

// --- what the run itself was asked for ---

Results asked_for(const FamilySet& families, ResultsBuilder builder = ResultsBuilder().add(gemm, "tflops", 700)) {
  Results results = builder.results();
  results.context.asked.families = families;
  return results;
}

const std::string two_rules = gemm_rule + "}\n" + allreduce_rule + "}\n";

TEST(Asked, FamiliesAloneArePartial) {
  const Verdict verdict = judge({asked_for({{"gemm"}})}, profile(two_rules), {});
  expect_state(verdict, State::partial, 3);
  EXPECT_EQ(verdict_line(verdict), "VERDICT: PARTIAL 8/8 (profile test, 4 ranks, 1 of 2 families, as asked)");
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
}  // namespace shakedown::verdict_test
