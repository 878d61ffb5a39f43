// Tests which parts a finding names, and its reasons.
#include "tests/thresholds/judged_rules.hpp"
#include "thresholds/findings/attribution.hpp"

namespace shakedown::finding_test {
namespace {
using namespace judged_rules;
using testing_support::profile;
using testing_support::ResultsBuilder;

const std::string no_value = "ranks without a value", last = "last to arrive";

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

TEST(Verdict, NamesAllOffendersTheWorstFirst) {
  ResultsBuilder builder(32);
  testing_support::Values values(32, 700);
  for (std::size_t rank = 0; rank < 12; ++rank) values[rank] = 500 + static_cast<double>(rank);
  builder.add(gemm, "tflops", 500, values);
  const Verdict verdict = judged(builder, gemm_rule + "}\n");
  const Finding finding = find(verdict, gemm);
  EXPECT_EQ(finding.offender_count, 12u);
  ASSERT_EQ(finding.offenders.size(), 12u);
  EXPECT_EQ(finding.offenders[0].rank, 0);
  EXPECT_EQ(finding.offenders[9].value, 509);
}

TEST(Verdict, NamesOffendersWithEqualValuesByRank) {
  ResultsBuilder builder;
  builder.add("counting/x:1", "samples", 10, {10, 10, 25, 10});
  const auto finding =
      find(judged(builder, "  - {benchmark: \"counting/x:1\", metric: samples, every: rank, source: s, min: 20}\n"),
           "counting/x:1");
  ASSERT_EQ(finding.offenders.size(), 3u);
  EXPECT_EQ(finding.offenders[0].rank, 0);
  EXPECT_EQ(finding.offenders[1].rank, 1);
  EXPECT_EQ(finding.offenders[2].rank, 3);
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
  EXPECT_EQ(counted({25, std::nullopt, 25, 25}, "min: 10").detail, no_value);
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
  EXPECT_EQ(silent.detail, no_value);
  const auto with_limit =
      of_fact("min: 16", {16, std::nullopt, 16, 16}, {std::nullopt, "no driver", std::nullopt, std::nullopt});
  EXPECT_EQ(with_limit.status, Status::missing);
  EXPECT_EQ(with_limit.detail, no_value + "; no driver");
  const auto empty = of_fact("min: 16", {16, std::nullopt, 16, 16}, {std::nullopt, "", std::nullopt, std::nullopt});
  EXPECT_EQ(empty.detail, no_value) << "the reason is empty";
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
    EXPECT_EQ(missing.detail, no_value) << limit;
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
  const Verdict invalid = judged(wrong, rule);
  EXPECT_EQ(find(invalid, step).status, Status::invalid);
  EXPECT_EQ(
      std::count_if(invalid.findings.begin(), invalid.findings.end(), [](const Finding& f) { return f.key == step; }),
      1)
      << "it is said once";
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

TEST(Verdict, NamesTheSlowestRankOfLocalWork) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 600).seconds({0.1, 0.3, 0.1, 0.1});
  const std::string rule = "  - {benchmark: \"" + gemm + "\", metric: tflops, every: run, min: 620, source: s}\n";
  const Verdict verdict = judged(builder, rule);
  EXPECT_EQ(find(verdict, gemm).worst->rank, 1);
  EXPECT_EQ(find(verdict, gemm).offender_count, 1u);
  EXPECT_EQ(find(verdict, gemm).detail.find(last), std::string::npos);
}

TEST(Verdict, NamesTheLastToArriveOfACollective) {
  ResultsBuilder builder;
  builder.add(allreduce, "busbw_gb_per_s", 100).seconds({0.30, 0.31, 0.05, 0.30});
  builder.by_rank("arrival_us", {0, 2, 240000, 1});
  const Verdict verdict = judged(builder, allreduce_rule + "}\n");
  ASSERT_TRUE(find(verdict, allreduce).worst.has_value());
  EXPECT_EQ(find(verdict, allreduce).worst->rank, 2) << "it came later and waits least";
  EXPECT_EQ(find(verdict, allreduce).offender_count, 1u);
  EXPECT_NE(find(verdict, allreduce).detail.find(last), std::string::npos);
}

TEST(Verdict, NamesNobodyWhereAllArriveTogether) {
  for (const testing_support::Values& seconds :
       {testing_support::Values{0.300, 0.310, 0.299, 0.300}, {0.30, 0.31, 0.05, 0.30}}) {
    ResultsBuilder builder;
    builder.add(allreduce, "busbw_gb_per_s", 100).seconds(seconds).by_rank("arrival_us", {0, 2, 40, 1}).repeated();
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

}  // namespace
}  // namespace shakedown::finding_test
