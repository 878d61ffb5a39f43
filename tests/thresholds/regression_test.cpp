// Tests which benchmarks are slower than the baseline, and which sets are not compared.
#include "thresholds/history/regression.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>

#include "base/statistics.hpp"
#include "tests/thresholds/results_builder.hpp"
#include "thresholds/catalogue/metrics.hpp"

namespace shakedown::regression_test {
namespace {
using testing_support::ResultsBuilder;

const std::string gemm = "gemm/dtype:bf16/m:8192/n:8192/k:8192";
const std::string step = "lora_step/model:qwen2_7b/batch:2/seq:4096";
const std::string small = "allreduce/dtype:f32/bytes:8";

using Launches = std::vector<Results>;
using Edit = std::function<void(ResultsBuilder&)>;

// Launches every two minutes on one machine, alternately old and new.
Results launch(ResultsBuilder builder, int number, const std::string& side) {
  builder.context.run_id = side + std::to_string(number);
  const int minute = 4 * number + (side == "new" ? 2 : 0);
  builder.context.started = "2026-11-22T12:" + std::string(minute < 10 ? "0" : "") + std::to_string(minute) + ":00Z";
  return builder.results(side + std::to_string(number) + ".json");
}

// `n` launches that differ by 0.1 or 0.2 %, like those of an idle machine.
Launches measured(const std::string& side, double tflops, double ms, int n = 9, const Edit& edit = {}) {
  Launches files;
  for (int i = 0; i < n; ++i) {
    const double noise = 1 + 0.0002 * ((7 * i) % 9 - 4) + 1e-7 * tflops * i;
    ResultsBuilder builder;
    builder.add(gemm, "tflops", tflops * noise);
    builder.add(step, "step_ms", ms * noise);
    if (edit) edit(builder);
    files.push_back(launch(std::move(builder), i, side));
  }
  return files;
}

// Launches that have one value each.
Launches launches(const std::vector<double>& tflops, const std::string& side) {
  Launches files;
  for (std::size_t i = 0; i < tflops.size(); ++i) {
    ResultsBuilder builder;
    builder.add(gemm, "tflops", tflops[i]);
    files.push_back(launch(std::move(builder), static_cast<int>(i), side));
  }
  return files;
}

Regression compared(const Launches& now, const Launches& before, const RegressionOptions& options = {}) {
  return judge_regression(now, baseline_of(before), options);
}

const Change& change_of(const Regression& regression, const std::string& key) {
  for (const Change& change : regression.changes) {
    if (change.key == key) return change;
  }
  throw std::out_of_range("not compared: " + key);
}

std::string trend(const Regression& regression, const std::string& key) {
  return std::string(name(change_of(regression, key).trend));
}

std::string refusal(const Launches& now, const Launches& before) {
  try {
    compared(now, before);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Change, OfOneFigureInTurnsIsJudgedByARankTest) {
  const auto turns = [](double rate, double noise) {
    std::vector<double> values;
    for (int i = 0; i < 12; ++i) values.push_back(rate * (1 + noise * ((7 * i) % 12 - 5.5)));
    return values;
  };
  const auto judged = [&](double rate, double noise) {
    return judge_change("train_step/x:1", "tokens_per_s", turns(1000, noise), turns(rate, noise));
  };
  EXPECT_EQ(judged(1030, 0.0003).trend, Trend::better);
  EXPECT_NEAR(*judged(1030, 0.0003).percent, 3, 0.1);
  EXPECT_LT(*judged(1030, 0.0003).low, *judged(1030, 0.0003).percent);
  EXPECT_GT(*judged(1030, 0.0003).high, *judged(1030, 0.0003).percent);
  EXPECT_EQ(judged(970, 0.0003).trend, Trend::worse);
  EXPECT_EQ(judged(1005, 0.0003).trend, Trend::same);
  EXPECT_EQ(judged(1000, 0.0003).trend, Trend::same);
  const auto noisy = judged(1000, 0.03);
  EXPECT_EQ(noisy.trend, Trend::inconclusive);
  EXPECT_NE(noisy.detail.find("too noisy"), std::string::npos) << noisy.detail;
  EXPECT_EQ(judged(1032, 0.01).trend, Trend::inconclusive) << "no loss, and no gain that is proven: not the same";
  EXPECT_EQ(judge_change("train_step/x:1", "step_ms", turns(1000, 0.0003), turns(1030, 0.0003)).trend, Trend::worse);
}

TEST(Regression, IsTheSameWithinTheMinimalEffect) {
  const Regression regression = compared(measured("new", 696, 20.1), measured("old", 700, 20));
  EXPECT_EQ(trend(regression, gemm), "same") << "proven, but 0.6 % is not worth a report";
  EXPECT_EQ(trend(regression, step), "same");
  EXPECT_EQ(regression.exit_code, 0);
  EXPECT_EQ(regression.compared, 2u);
}

TEST(Regression, KnowsWhichDirectionIsWorse) {
  const Regression slower = compared(measured("new", 686, 30), measured("old", 700, 20));
  EXPECT_EQ(trend(slower, gemm), "worse");
  EXPECT_EQ(trend(slower, step), "worse") << "a step takes longer";
  EXPECT_EQ(slower.exit_code, 1);
  EXPECT_NEAR(*change_of(slower, gemm).percent, -2, 0.05);
  EXPECT_LT(*change_of(slower, gemm).low, -2);
  EXPECT_GT(*change_of(slower, gemm).high, -2);
  EXPECT_NEAR(*change_of(slower, step).percent, 50, 0.1);
  EXPECT_LT(*change_of(slower, step).low, *change_of(slower, step).high);
  const Regression faster = compared(measured("new", 720, 15), measured("old", 700, 20));
  EXPECT_EQ(trend(faster, gemm), "better");
  EXPECT_EQ(trend(faster, step), "better");
  EXPECT_EQ(faster.exit_code, 0);
}

TEST(Regression, OfOneLaunchAgainstOneNamesATenthAndOfThreeAgainstThreeThreePercent) {
  EXPECT_EQ(trend(compared(launches({630}, "new"), launches({700}, "old")), gemm), "worse");
  EXPECT_EQ(trend(compared(launches({679, 679, 679}, "new"), launches({700, 700, 700}, "old")), gemm), "worse");
  const Regression one = compared(launches({690}, "new"), launches({700}, "old"));
  EXPECT_EQ(trend(one, gemm), "inconclusive") << "1.4 % may be a launch";
  EXPECT_EQ(one.exit_code, 3) << "the whole family is inconclusive";
  EXPECT_GT(change_of(one, gemm).needed, 1u);
  EXPECT_NE(change_of(one, gemm).detail.find("alternating launches of old and new are needed to decide"),
            std::string::npos);
}

TEST(Regression, DoesNotJudgeFiguresThatCannotShowATenth) {
  const auto tiny = [](double us, int n, const std::string& side) {
    return measured(side, 700, 20, n, [&](ResultsBuilder& b) { b.add(small, "latency_us", us); });
  };
  const Regression one = compared(tiny(11, 1, "new"), tiny(8, 1, "old"));
  EXPECT_EQ(trend(one, small), "not judged");
  EXPECT_EQ(one.exit_code, 0);
  EXPECT_EQ(one.compared, 2u);
  EXPECT_NE(one.notes.back().find("allreduce (1)"), std::string::npos) << one.notes.back();
  EXPECT_EQ(trend(compared(tiny(9.5, 9, "new"), tiny(8, 9, "old")), small), "not judged") << "19 %, but 1.5 us";
  EXPECT_EQ(trend(compared(tiny(11, 9, "new"), tiny(8, 9, "old")), small), "worse") << "nine launches prove it";
}

TEST(Regression, ThatJudgesNothingIsInconclusive) {
  const auto tiny = [](const std::string& side) {
    ResultsBuilder builder;
    builder.add(small, "latency_us", 8);
    return Launches{launch(std::move(builder), 0, side)};
  };
  const Regression regression = compared(tiny("new"), tiny("old"));
  EXPECT_EQ(regression.compared, 0u);
  EXPECT_EQ(regression.exit_code, 3);
}

TEST(Regression, DoesNotJudgeCollectivesOfOneRank) {
  const auto alone = [](const std::string& side, double rate) {
    ResultsBuilder builder(1);
    builder.add(gemm, "tflops", 700).add("collectives/op:reduce/dtype:f32/bytes:134217728", "latency_us", 1e5 / rate);
    return Launches{launch(std::move(builder), 0, side)};
  };
  const Regression regression = compared(alone("new", 700), alone("old", 1400));
  EXPECT_EQ(trend(regression, "collectives/op:reduce/dtype:f32/bytes:134217728"), "not judged");
  EXPECT_EQ(regression.exit_code, 0);
}

TEST(Regression, IsInconclusiveWhereLaunchesDoNotRepeat) {
  const auto noisy = [](double tflops, int phase, const std::string& side) {
    std::vector<double> values;
    for (int i = 0; i < 9; ++i) values.push_back(tflops * (1 + 0.005 * ((7 * i + phase) % 9 - 4)));
    return launches(values, side);
  };
  const Regression regression = compared(noisy(690, 3, "new"), noisy(700, 0, "old"));
  EXPECT_EQ(trend(regression, gemm), "inconclusive");
  EXPECT_EQ(regression.exit_code, 3);
  EXPECT_EQ(change_of(regression, gemm).detail.rfind("launches differ by 1.", 0), 0u)
      << change_of(regression, gemm).detail;
  EXPECT_GT(change_of(regression, gemm).needed, 9u);
}

TEST(Regression, TakesALaunchForOneValue) {
  const auto repeated = [](double tflops, const std::string& side) {
    ResultsBuilder builder;
    for (int i = 0; i < 9; ++i) builder.add(gemm, "tflops", tflops * (1 + 1e-5 * i));
    return Launches{launch(std::move(builder), 0, side)};
  };
  const Regression regression = compared(repeated(692, "new"), repeated(700, "old"));
  EXPECT_EQ(change_of(regression, gemm).before_count, 1u);
  EXPECT_EQ(trend(regression, gemm), "inconclusive") << "nine repetitions of one launch are no proof";
}

TEST(Regression, IsNotMovedByAWildLaunch) {
  auto now = launches({700.1, 700.2, 700.3, 700.4, 100, 700.5, 700.6, 700.7, 700.8}, "new");
  EXPECT_EQ(trend(compared(now, launches({700, 701, 702, 700, 701, 702, 700, 701, 702}, "old")), gemm), "same");
}

TEST(Regression, OfOtherDaysAndMachinesNeedsALargerLoss) {
  const auto moved = [](double tflops, const std::string& time, const std::string& host) {
    Launches files = launches(std::vector<double>(9, tflops), "new");
    for (std::size_t i = 0; i < files.size(); ++i) {
      files[i].context.started = time + std::to_string(i) + ":00Z";
      if (!host.empty()) {
        for (RankFacts& rank : files[i].context.ranks) rank.host = host;
      }
    }
    return files;
  };
  const auto old = launches(std::vector<double>(9, 700), "old");
  EXPECT_EQ(trend(compared(moved(686, "2026-11-22T12:3", ""), old), gemm), "worse") << "2 % of one session";
  const Regression day = compared(moved(691.5, "2026-11-25T12:3", ""), old);
  EXPECT_EQ(trend(day, gemm), "inconclusive") << "1.2 % of another day";
  EXPECT_NE(day.notes[0].find("different sessions"), std::string::npos);
  const Regression machine = compared(moved(651, "2026-11-25T12:3", "other"), old);
  EXPECT_EQ(trend(machine, gemm), "inconclusive") << "7 % of another machine";
  EXPECT_NE(machine.notes[0].find("other hosts"), std::string::npos);
  EXPECT_EQ(trend(compared(moved(560, "2026-11-25T12:3", "other"), old), gemm), "worse") << "20 %";
}

TEST(Regression, MissesWhatTheBaselineHas) {
  const Regression gone = compared(launches({700}, "new"), measured("old", 700, 20));
  EXPECT_EQ(trend(gone, step), "missing");
  EXPECT_EQ(gone.exit_code, 1);
  auto failed = measured("new", 700, 20, 1);
  failed[0].rows.erase(failed[0].rows.begin());
  ResultsBuilder error;
  error.add_error(gemm, "wrong data");
  failed[0].rows.push_back(error.results().rows.front());
  const Regression broken = compared(failed, measured("old", 700, 20));
  EXPECT_EQ(trend(broken, gemm), "missing");
  EXPECT_EQ(change_of(broken, gemm).detail, "wrong data");
}

TEST(Regression, MissesABenchmarkThatFailedInOneRepetition) {
  const auto now = measured("new", 700, 20, 9, [](ResultsBuilder& b) { b.add_error(gemm, "wrong data"); });
  const Regression regression = compared(now, measured("old", 700, 20));
  EXPECT_EQ(trend(regression, gemm), "missing");
  EXPECT_EQ(regression.exit_code, 1);
}

TEST(Regression, MissesWhatFailedNowEvenIfTheBaselineHasNoneOfIt) {
  const auto with_error = [](const std::string& side, const std::string& error) {
    return measured(side, 700, 20, 1, [&](ResultsBuilder& b) { b.add_error(small, error); });
  };
  const auto now = with_error("new", "wrong data");
  for (const auto& before : {measured("old", 700, 20, 1), with_error("old", "timed out")}) {
    const Regression regression = compared(now, before);
    EXPECT_EQ(trend(regression, small), "missing");
    EXPECT_EQ(change_of(regression, small).detail, "wrong data");
    EXPECT_EQ(regression.exit_code, 1);
    EXPECT_EQ(findings_of(regression, now)[0].status, Status::missing);
  }
  ResultsBuilder only;
  only.add_error(small, "wrong data");
  const Regression nothing_else = compared({launch(std::move(only), 0, "new")}, launches({700}, "old"));
  EXPECT_EQ(nothing_else.exit_code, 1) << "nothing can be compared, but it is known why";
}

TEST(Regression, ShowsWhatIsNewAndAccepts) {
  const std::string copy = "hbm/op:copy/engine:sm/bytes:8";
  const auto now = measured("new", 700, 20, 9, [&](ResultsBuilder& b) { b.add(copy, "hbm_gb_per_s", 4000); });
  const Regression regression = compared(now, measured("old", 700, 20));
  EXPECT_EQ(trend(regression, copy), "new");
  EXPECT_EQ(regression.exit_code, 0);
  EXPECT_EQ(findings_of(regression, now).size(), 2u) << "a verdict says nothing of what is new";
}

TEST(Regression, ComparesOneFamilyIfAsked) {
  RegressionOptions options;
  options.families = {{"gemm"}};
  const Regression regression = compared(launches({700}, "new"), measured("old", 700, 20), options);
  ASSERT_EQ(regression.changes.size(), 1u);
  EXPECT_EQ(regression.changes[0].key, gemm);
}

TEST(Regression, DoesNotMissAFurtherTurnOfARowInDoubt) {
  const auto before = measured("old", 700, 20, 1, [](ResultsBuilder& b) { b.add(gemm + "/turn:2", "tflops", 700); });
  EXPECT_EQ(compared(measured("new", 700, 20, 1), before).changes.size(), 2u);
}

TEST(Regression, RefusesSetsThatHaveNothingInCommon) {
  ResultsBuilder waived, failed;
  waived.add_waiver(gemm, "needs 300 GB");
  failed.add_error(gemm, "wrong data");
  const Launches none{launch(waived, 0, "old")};
  EXPECT_NE(refusal(none, none).find("nothing to compare"), std::string::npos);
  EXPECT_EQ(refusal(measured("new", 700, 20), {launch(failed, 0, "old")}), refusal(none, none)) << "all of it is new";
}

// ---------------------------------------------------------------------------------------------------------------------
// Configurations

Launches with(const std::function<void(Context&)>& change, const std::string& side = "old") {
  return measured(side, 700, 20, 1, [&](ResultsBuilder& b) { change(b.context); });
}

std::string differs(const std::string& what, const std::string& now, const std::string& before) {
  return what + " is " + now + ", the baseline has " + before;
}

TEST(Regression, RefusesAnotherConfigurationAndNamesIt) {
  const auto base = measured("new", 700, 20, 1);
  const auto refused = [&](const std::function<void(Context&)>& change) { return refusal(base, with(change)); };
  const auto expect = [&](const std::string& text, const std::function<void(Context&)>& change) {
    EXPECT_NE(refused(change).find(text), std::string::npos) << text << ": " << refused(change);
  };
  expect("driver is 580.159, the baseline has 570.1", [](Context& c) { c.versions["driver"] = "570.1"; });
  expect("nccl is", [](Context& c) { c.versions["nccl"] = "2.27"; });
  expect("the baseline has unknown", [](Context& c) { c.versions.erase("nccl"); });
  expect("cuda is", [](Context& c) { c.versions["cuda"] = "12.8"; });
  expect("cublaslt is", [](Context& c) { c.versions["cublaslt"] = "12.8"; });
  expect("nvls is off, the baseline has on", [](Context& c) { c.nccl.nvls = "on"; });
  expect("tier is quick, the baseline has full", [](Context& c) { c.tier = Tier::full; });
  expect("build_type is", [](Context& c) { c.suite.build_type = "Debug"; });
  expect("backend is", [](Context& c) { c.backend = Backend::host; });
  expect("plan is", [](Context& c) { c.plan = 3; });
  expect("version is", [](Context& c) { c.suite.version = "9.9"; });
  expect("device is NVIDIA H200, the baseline has NVIDIA H100", [](Context& c) {
    for (auto& rank : c.ranks) rank.device = "NVIDIA H100 80GB HBM3";
  });
  expect("hosts is 1, the baseline has 2", [](Context& c) {
    c.hosts = 2;
    c.ranks.back().host = "node1";
    c.ranks.back().local_rank = 0;
  });
}

TEST(Regression, RefusesAnotherPowerLimitOrVbiosOnceBothSidesKnowIt) {
  const auto limited = [](const std::string& side, std::optional<double> watts, const std::string& vbios) {
    return measured(side, 700, 20, 1, [&](ResultsBuilder& b) {
      for (RankFacts& rank : b.context.ranks) rank.power_limit_w = watts;
      if (!vbios.empty()) b.add_facts("preflight/gpu", {}, {{"vbios", {vbios, vbios, vbios, vbios}}});
    });
  };
  const auto now = limited("new", 500, "96.00.B9");
  EXPECT_NE(refusal(now, limited("old", 700, "96.00.B9")).find(differs("power_limit_w", "500", "700")),
            std::string::npos);
  EXPECT_NE(refusal(now, limited("old", 500, "96.00.A5")).find(differs("vbios", "96.00.B9", "96.00.A5")),
            std::string::npos);
  EXPECT_EQ(refusal(now, limited("old", std::nullopt, "")), "") << "older baselines do not know them";
  EXPECT_EQ(refusal(now, limited("old", 500, "96.00.B9")), "");
}

TEST(Regression, RefusesAnotherTuningAndNamesIt) {
  const auto plain = measured("new", 700, 20, 1), tuned = with([](Context&c) { c.environment["NCCL_ALGO"] = "Tree"; });
  EXPECT_NE(refusal(tuned, plain).find(differs("NCCL_ALGO", "Tree", "unset")), std::string::npos);
  EXPECT_NE(refusal(plain, tuned).find(differs("NCCL_ALGO", "unset", "Tree")), std::string::npos);
  EXPECT_EQ(refusal(tuned, tuned), "");
  const auto elsewhere = with([](Context& c) {
    for (const char* variable :
         {"CUDA_VISIBLE_DEVICES", "SLURM_JOB_NUM_NODES", "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}) {
      c.environment[variable] = "1";
    }
  });
  EXPECT_EQ(refusal(elsewhere, plain), "") << "these say where it ran, not how";
}

TEST(Regression, TakesTheTransportOfMpiForTuningOnHostsOnly) {
  const auto ranks_on = [](Backend backend, bool tuned) {
    return with([&](Context& c) {
      c.backend = backend;
      if (tuned) c.environment["OMPI_MCA_pml"] = "ob1";
    });
  };
  EXPECT_EQ(refusal(ranks_on(Backend::cuda, true), ranks_on(Backend::cuda, false)), "");
  EXPECT_NE(refusal(ranks_on(Backend::host, true), ranks_on(Backend::host, false))
                .find(differs("OMPI_MCA_pml", "ob1", "unset")),
            std::string::npos);
}

TEST(Regression, ComparesAnotherConfigurationIfAskedAndSaysSo) {
  const auto before = measured("old", 700, 20, 9, [](ResultsBuilder& b) {
    b.context.versions["driver"] = "570.1";
    b.context.tier = Tier::full;
  });
  RegressionOptions options;
  options.allow_different = true;
  const Regression regression = compared(measured("new", 700, 20), before, options);
  EXPECT_EQ(trend(regression, gemm), "same");
  ASSERT_GE(regression.notes.size(), 2u);
  EXPECT_EQ(regression.notes[0], "compared although " + differs("driver", "580.159", "570.1"));
  EXPECT_EQ(regression.notes[1], "compared although " + differs("tier", "quick", "full"));
}

TEST(Regression, SaysOfACopyThatItIsNone) {
  const auto launches_of = [](const std::vector<double>& rates, const std::string& side) {
    Launches files;
    for (std::size_t i = 0; i < rates.size(); ++i) {
      ResultsBuilder builder;
      for (int r = 0; r < 3; ++r) builder.add(gemm, "tflops", rates[i] * (1 + 1e-5 * r));
      files.push_back(launch(std::move(builder), static_cast<int>(i), side));
    }
    return files;
  };
  const auto said = [](const Launches& now, const Launches& before) {
    std::string all;
    for (const auto& note : compared(now, before).notes) all += note + "; ";
    return all;
  };
  const std::string repeats = " have the same figures", known = " in the baseline";
  const std::vector<double> rates{700.0001, 701.0002, 702.0003};
  const auto before = launches_of(rates, "old"), now = launches_of({700.1001, 701.1002, 702.1003}, "new");
  EXPECT_EQ(said(now, before).find(repeats), std::string::npos);
  EXPECT_EQ(said(now, before).find(known), std::string::npos);
  EXPECT_NE(said(before, before).find("launch old2@node0 is" + known + ": leave"), std::string::npos);
  EXPECT_NE(said(launches_of(rates, "new"), before).find("launch new2@node0 is" + known + " as old2@node0"),
            std::string::npos);
  EXPECT_NE(said(now, launches_of({700.0001, 700.0001}, "old")).find("old0@node0 and old1@node0" + repeats),
            std::string::npos);
  EXPECT_EQ(said(launches({700}, "new"), launches({700}, "old")).find(known), std::string::npos)
      << "one round figure repeats by accident";
}

TEST(Regression, RefusesNothingAndSillyOptions) {
  const auto results = measured("new", 700, 20);
  const Baseline baseline = baseline_of(results);
  EXPECT_THROW(judge_regression(Measured{}, baseline), InputError);
  for (const double effect : {0.0, 1.0, -0.1}) {
    RegressionOptions options;
    options.min_effect = effect;
    EXPECT_THROW(judge_regression(results, baseline, options), InputError);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Findings of a verdict

RegressionOptions in_a_verdict() {
  RegressionOptions options;
  options.min_effect = default_tolerance;
  return options;
}

TEST(ByBaseline, BecomesFindingsOfAVerdict) {
  const auto now = measured("new", 600, 20, 1);
  const auto findings = findings_of(compared(now, measured("old", 700, 20, 1), in_a_verdict()), now);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].key, gemm);
  EXPECT_EQ(findings[0].judgement, Judgement::baseline);
  EXPECT_EQ(findings[0].status, Status::fail);
  EXPECT_NEAR(findings[0].limit->value, 665, 1);
  EXPECT_EQ(findings[0].detail, "-14.3 %");
  EXPECT_EQ(findings[0].source, "baseline 699.44 of 1 launch");
  EXPECT_NE(findings[0].next.find("bench_gemm"), std::string::npos);
  EXPECT_EQ(findings[1].status, Status::pass);
}

TEST(ByBaseline, NamesTheRankToLookAt) {
  auto builder = ResultsBuilder().add(gemm, "tflops", 600, {700, 700, 600, 700});
  builder.by_rank("seconds", {1.0, 1.0, 1.2, 1.0});
  const Launches now{launch(builder, 0, "new")};
  const auto findings = findings_of(compared(now, launches({700}, "old"), in_a_verdict()), now);
  ASSERT_EQ(findings[0].offenders.size(), 1u);
  EXPECT_EQ(text(findings[0].offenders[0]), "rank 2 node0 GPU-1002 0000:12:00.0");
}

TEST(ByBaseline, LeavesAsMuchRoomAsTheBaselineItselfNeeded) {
  // Launches of one machine that differ by 2 %.
  const auto noisy = launches({700, 686, 714, 693, 707, 682, 716, 697, 703}, "old");
  const auto status_of = [&](double tflops) {
    const auto now = launches({tflops}, "new");
    const auto findings = findings_of(compared(now, noisy, in_a_verdict()), now);
    return findings[0].counts() ? findings[0].status : Status::waived;
  };
  EXPECT_EQ(status_of(500), Status::fail);
  EXPECT_NE(status_of(655), Status::fail) << "beyond 5 %, but launches differ as much";
  EXPECT_NE(status_of(690), Status::fail);
  EXPECT_NE(status_of(900), Status::fail) << "no part is accused of being fast";
}

// ---------------------------------------------------------------------------------------------------------------------
// Stored launches

const std::filesystem::path stored = SHAKEDOWN_SOURCE_DIR "/ci/baselines";

// Launches of the same GPUs, a minute apart.
const std::vector<std::vector<std::string>> same_gpus{{"h100-sxm/1ranks/1", "h100-sxm/1ranks/2", "h100-sxm/1ranks/3"},
                                                      {"h100-sxm/1ranks/4", "h100-sxm/1ranks/5", "h100-sxm/1ranks/6"},
                                                      {"h200-sxm/1ranks/1", "h200-sxm/1ranks/2", "h200-sxm/1ranks/3"},
                                                      {"h200-sxm/1ranks/4", "h200-sxm/1ranks/5", "h200-sxm/1ranks/6"},
                                                      {"h200-sxm/1ranks/7", "h200-sxm/1ranks/8", "h200-sxm/1ranks/9"},
                                                      {"h200-sxm/2ranks/1", "h200-sxm/2ranks/2", "h200-sxm/2ranks/3"},
                                                      {"h200-sxm/2ranks/4", "h200-sxm/2ranks/5", "h200-sxm/2ranks/6"},
                                                      {"h200-sxm/4ranks/1", "h200-sxm/4ranks/2", "h200-sxm/4ranks/3"}};

Launches slowed(Launches files, std::string_view family, double factor) {
  for (Results& file : files) {
    for (Row& row : file.rows) {
      if (family_of(row.key) != family) continue;
      for (auto& [metric, value] : row.metrics) value *= lower_is_better(metric) ? 1 / factor : factor;
    }
  }
  return files;
}

std::size_t count(const Regression& regression, Trend trend, std::string_view family) {
  return static_cast<std::size_t>(
      std::count_if(regression.changes.begin(), regression.changes.end(), [&](const Change& change) {
        return change.trend == trend && (family.empty() || family_of(change.key) == family);
      }));
}

TEST(StoredLaunches, OfTheSameGpusPassAgainstEachOther) {
  std::size_t pairs = 0, findings = 0;
  for (const auto& group : same_gpus) {
    for (const auto& before : group) {
      const auto old = read_results(std::vector{stored / before});
      for (const auto& after : group) {
        if (after == before) continue;
        ++pairs;
        const auto now = read_results(std::vector{stored / after});
        for (const Finding& finding : findings_of(compared(now, old, in_a_verdict()), now)) {
          EXPECT_TRUE(finding.good()) << before << " " << after << " " << finding.key << " " << finding.detail;
          ++findings;
        }
      }
    }
  }
  EXPECT_EQ(pairs, 48u);
  std::printf("%zu findings of %zu ordered pairs\n", findings, pairs);
}

TEST(StoredLaunches, ThatLostATenthInAFamilyAreNamedByOneLaunchAgainstOne) {
  std::size_t all = 0, named = 0;
  for (const auto& group : same_gpus) {
    const auto old = read_results(std::vector{stored / group[0]}), now = read_results(std::vector{stored / group[1]});
    const bool several = group[0].find("1ranks") == std::string::npos;
    for (const std::string family :
         {"gemm", "hbm", "memtest", "pcie", "lora_step", "train_step", "p2p", "allreduce", "collectives"}) {
      const bool between_ranks = family == "p2p" || family == "allreduce" || family == "collectives";
      if (!several && between_ranks) continue;
      const Regression as_it_is = compared(now, old, in_a_verdict());
      const Regression slow = compared(slowed(now, family, 0.9), old, in_a_verdict());
      if (count(as_it_is, Trend::same, family) == 0) continue;  // not in this launch
      ++all;
      named += count(slow, Trend::worse, family) > 0 ? 1 : 0;
      EXPECT_EQ(count(slow, Trend::worse, family), count(slow, Trend::worse, "")) << "only " << family;
      EXPECT_EQ(slow.exit_code, 1) << group[1] << " " << family;
    }
  }
  EXPECT_EQ(named, all);
  EXPECT_GE(all, 40u);
  std::printf("%zu of %zu families named\n", named, all);
}

// Six launches on one machine: three against the other three, in every choice. A later session would have the same
// noise.
TEST(StoredLaunches, ThatLostThreePercentInAFamilyAreNamedByThreeAgainstThree) {
  const auto six = read_baseline({SHAKEDOWN_SOURCE_DIR "/tests/data/h200-sxm-2ranks-launches.json"});
  std::vector<std::string> names;
  for (const auto& [name, facts] : six.launches) names.push_back(name);
  ASSERT_EQ(names.size(), 6u);
  const auto chosen = [&](unsigned choice, const std::string& side) {
    Launches files;
    for (unsigned i = 0; i < 6; ++i) {
      if (((choice >> i) & 1) == 0) continue;
      ResultsBuilder builder(2);
      for (const auto& [key, entry] : six.benchmarks) {
        const auto& values = entry.series.at(entry.headline).launches;
        if (const auto found = values.find(names[i]); found != values.end()) {
          builder.add(key, entry.headline, median(found->second));
        }
      }
      files.push_back(launch(std::move(builder), static_cast<int>(i), side));
      files.back().context.started =
          "2026-11-22T1" + std::string(side == "new" ? "3" : "2") + ":0" + std::to_string(i) + ":00Z";
    }
    return files;
  };
  std::map<std::string, std::pair<int, int>> named;  // by family: named, of
  int comparisons = 0, alarms = 0;
  for (unsigned choice = 0; choice < 64; ++choice) {
    if (std::popcount(choice) != 3) continue;
    const auto old = chosen(choice, "old"), now = chosen(~choice & 63, "new");
    ++comparisons;
    alarms += count(compared(now, old), Trend::worse, "") > 0 ? 1 : 0;
    for (const std::string family : {"gemm", "hbm", "p2p", "allreduce"}) {
      auto& [found, all] = named[family];
      const Regression slow = compared(slowed(now, family, 0.97), old);
      found += count(slow, Trend::worse, family) > 0 ? 1 : 0;
      ++all;
    }
  }
  for (const auto& [family, found] : named) std::printf("%s: %d of %d\n", family.c_str(), found.first, found.second);
  EXPECT_EQ(comparisons, 20);
  EXPECT_EQ(alarms, 0);
  for (const auto& [family, found] : named) EXPECT_GE(found.first, 0.95 * found.second) << family;
}

TEST(StoredLaunches, OfOtherMachinesAreNotWorseAndALossOfATenthIsNotCalledTheSame) {
  const auto of_machine = [&](const std::string& kind, int first) {
    std::vector<std::filesystem::path> folders;
    for (int i = first; i < first + 3; ++i) folders.push_back(stored / kind / "1ranks" / std::to_string(i));
    return read_results(folders);
  };
  const std::map<std::string, std::vector<int>> machines{{"h200-sxm", {1, 4, 7}}, {"h100-sxm", {1, 4}}};
  for (const auto& [kind, firsts] : machines) {
    for (const int before : firsts) {
      for (const int after : firsts) {
        if (after == before) continue;
        SCOPED_TRACE(kind + " " + std::to_string(before) + " " + std::to_string(after));
        const auto old = of_machine(kind, before), now = of_machine(kind, after);
        const Regression as_they_are = compared(now, old);
        EXPECT_EQ(count(as_they_are, Trend::worse, ""), 0u);
        EXPECT_EQ(count(as_they_are, Trend::missing, ""), 0u);
        EXPECT_GE(3 * count(as_they_are, Trend::same, ""), 2 * as_they_are.compared);
        EXPECT_EQ(count(compared(slowed(now, "gemm", 0.9), old), Trend::same, "gemm"), 0u);
      }
    }
  }
}

}  // namespace
}  // namespace shakedown::regression_test
