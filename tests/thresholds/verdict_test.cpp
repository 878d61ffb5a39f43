// Tests whether a machine is accepted.
#include "tests/thresholds/judged_rules.hpp"
#include "thresholds/history/baseline.hpp"

namespace shakedown::verdict_test {
namespace {

using namespace judged_rules;
using testing_support::profile;
using testing_support::ResultsBuilder;

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
  EXPECT_NE(few.detail.find("5 of 10"), std::string::npos) << few.detail;
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

/// The summaries of a verdict, one in a line.
std::string summaries(const Verdict& verdict) {
  std::string text;
  for (const Summary& summary : verdict.summaries) text += summary.text + "\n";
  return text;
}

TEST(Verdict, SumsUpWhatItCountsAndHowItComparesWithAStoredRun) {
  const auto results = ResultsBuilder().add(gemm, "tflops", 700).results();
  References references(profile(gemm_rule + "}\n"));
  EXPECT_EQ(summaries(judge({results}, {}, {})).rfind("no profile for this machine\n", 0), 0u);
  EXPECT_EQ(summaries(judge({results}, references, {})).rfind("8 of 8 good (test)\n", 0), 0u)
      << summaries(judge({results}, references, {}));
  references.baseline = baseline_of({results});
  auto now = ResultsBuilder().add(gemm, "tflops", 700);
  now.context.run_id = "run-2";
  const auto same = summaries(judge({now.results()}, references, {}));
  EXPECT_EQ(same.rfind("8 of 8 good (test); the verdict counts 1 more finding: 1 by baseline\n", 0), 0u) << same;
  EXPECT_NE(same.find("1 of 1 benchmarks as in the baseline\n"), std::string::npos) << same;
  now.context.versions["driver"] = "570.1";
  const Verdict one = judge({now.results()}, references, {});
  EXPECT_EQ(one.state, State::inconclusive);
  EXPECT_EQ(find(one, "machine/baseline").code, Code::baseline);
  EXPECT_EQ(find(one, "machine/baseline").detail.rfind("not compared: ", 0), 0u);
  EXPECT_EQ(find(one, "machine/baseline").detail.find("other difference"), std::string::npos);
  EXPECT_NE(summaries(one).find(find(one, "machine/baseline").detail + "\n"), std::string::npos) << summaries(one);
  now.context.versions["nccl"] = "2.27.1";
  EXPECT_NE(find(judge({now.results()}, references, {}), "machine/baseline").detail.find(", and 1 other difference"),
            std::string::npos);
  references.change.allow_different = true;
  EXPECT_FALSE(has(judge({now.results()}, references, {}), "machine/baseline"));
}

TEST(Verdict, HasTheEarliestStartAndTheNamesOfItsFiles) {
  auto early = ResultsBuilder().add(gemm, "tflops", 700), late = ResultsBuilder().add("hbm/x:1", "hbm_gb_per_s", 4000);
  late.context.started = "2026-11-21T06:00:00Z";
  for (const auto& files : {std::vector{early.results("a.json"), late.results("b.json")},
                            {late.results("a.json"), early.results("b.json")}}) {
    const Verdict verdict = judge(files, {}, {});
    EXPECT_EQ(verdict.started, "2026-11-21T05:00:00Z");
    ASSERT_EQ(verdict.results.size(), 2u);
    EXPECT_EQ(verdict.results[1].name, "b.json");
    EXPECT_EQ(verdict.run_ids, std::vector<std::string>{"run-1"});
    EXPECT_TRUE(verdict.notes.empty());
    ASSERT_EQ(verdict.nodes.size(), 1u);
    EXPECT_EQ(verdict.nodes[0].ranks, 4);
  }
  EXPECT_EQ(verdict_line(judge({ResultsBuilder(1).add(gemm, "tflops", 700).results()}, profile(gemm_rule + "}\n"), {})),
            "VERDICT: PASS 8/8 (profile test, 1 rank)");
}

TEST(Verdict, AcceptsASpreadAndACvAtTheirLimits) {
  const std::string rule = "  - {benchmark: \"counting/x:1\", metric: samples, every: rank, source: s, ";
  ResultsBuilder builder;
  builder.add("counting/x:1", "samples", 100, {95, 100, 100, 105}, {{"cv", 0.25}});
  const auto status = [&](const std::string& limit) {
    return find(judged(builder, rule + limit + "}\n"), "counting/x:1").status;
  };
  EXPECT_EQ(status("spread_max: 0.1"), Status::pass);
  EXPECT_EQ(status("spread_max: 0.09"), Status::fail);
  EXPECT_EQ(status("min: 1, cv_max: 0.25"), Status::pass);
  EXPECT_EQ(status("min: 1, cv_max: 0.24"), Status::inconclusive);
}

TEST(Verdict, CountsNoSamplesWhereARowHasNone) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 700);
  builder.rows.back().erase("samples");
  const auto few = find(judged(builder, gemm_rule + ", samples_min: 10}\n"), gemm);
  EXPECT_EQ(few.status, Status::invalid);
  EXPECT_EQ(few.value, 0);
  EXPECT_NE(few.detail.find("0 of 10"), std::string::npos) << few.detail;
}

TEST(Verdict, NamesNoRankThatTheRunDoesNotHave) {
  for (const int rank : {3, 4}) {
    Results results = ResultsBuilder().add_error(gemm, "wrong data").results();
    results.rows.front().wrong_ranks = {rank};
    const auto finding = find(judge({results}, profile(gemm_rule + "}\n"), {}), gemm);
    EXPECT_EQ(finding.code, Code::wrong_data);
    EXPECT_EQ(finding.part.kind, rank == 3 ? PartKind::gpu : PartKind::run) << rank;
  }
}

}  // namespace
}  // namespace shakedown::verdict_test
