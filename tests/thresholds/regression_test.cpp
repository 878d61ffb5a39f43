// What counts as slower than the baseline, and which sets are not compared at all.
#include "thresholds/history/regression.hpp"
#include "thresholds/catalogue/metrics.hpp"

#include <gtest/gtest.h>

#include "tests/thresholds/results_builder.hpp"

namespace shakedown::regression_test {
namespace {

using testing_support::ResultsBuilder;

const std::string gemm = "gemm/dtype:bf16/m:8192/n:8192/k:8192";
const std::string small = "allreduce/dtype:f32/bytes:8";

// `n` repetitions that differ by a thousandth or two, like those of a quiet machine.
ResultsBuilder measured(double tflops, double latency_us, int n = 9) {
  ResultsBuilder builder;
  for (int i = 0; i < n; ++i) {
    const double noise = 1 + 0.0002 * ((7 * i) % 9 - 4) + 1e-7 * tflops * i;
    builder.add(gemm, "tflops", tflops * noise);
    builder.add(small, "latency_us", latency_us * noise, {}, {{"busbw_gb_per_s", 0.001}});
  }
  return builder;
}

// The same as launches of their own.
std::vector<Results> launches(const std::vector<double>& tflops, const std::string& name = "run", int repetitions = 1) {
  std::vector<Results> files;
  for (std::size_t i = 0; i < tflops.size(); ++i) {
    ResultsBuilder builder;
    for (int r = 0; r < repetitions; ++r) builder.add(gemm, "tflops", tflops[i] * (1 + 1e-5 * r));
    builder.context.run_id = name + std::to_string(i);
    files.push_back(builder.results());
  }
  return files;
}

Regression compared(const ResultsBuilder& now, const ResultsBuilder& before, const RegressionOptions& options = {}) {
  return judge_regression({now.results()}, baseline_of({before.results()}), options);
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

std::string refusal(const ResultsBuilder& now, const ResultsBuilder& before) {
  try {
    compared(now, before);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Regression, JudgesOneFigureInTurnsByTheSameRules) {
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
  const Regression regression = compared(measured(696, 20.1), measured(700, 20));
  EXPECT_EQ(trend(regression, gemm), "same") << "proven, but 0.6 % is not worth a report";
  EXPECT_EQ(trend(regression, small), "same");
  EXPECT_EQ(regression.exit_code, 0);
  EXPECT_EQ(regression.compared, 2u);
}

TEST(Regression, KnowsWhichDirectionIsWorse) {
  const Regression slower = compared(measured(686, 30), measured(700, 20));
  EXPECT_EQ(trend(slower, gemm), "worse");
  EXPECT_EQ(trend(slower, small), "worse") << "latency is the headline of a small AllReduce, and lower is better";
  EXPECT_EQ(slower.exit_code, 1);
  EXPECT_NEAR(*change_of(slower, gemm).percent, -2, 0.05);
  EXPECT_LT(*change_of(slower, gemm).low, -2);
  EXPECT_GT(*change_of(slower, gemm).high, -2);
  EXPECT_NEAR(*change_of(slower, small).percent, 50, 0.1);
  EXPECT_LT(*change_of(slower, small).low, *change_of(slower, small).high);
  const Regression faster = compared(measured(720, 15), measured(700, 20));
  EXPECT_EQ(trend(faster, gemm), "better");
  EXPECT_EQ(trend(faster, small), "better");
  EXPECT_EQ(faster.exit_code, 0);
}

TEST(Regression, IgnoresAMicrosecondOfATinyLatency) {
  EXPECT_EQ(trend(compared(measured(700, 9.5), measured(700, 8)), small), "same") << "19 %, but 1.5 us";
  EXPECT_EQ(trend(compared(measured(700, 11), measured(700, 8)), small), "worse");
}

TEST(Regression, IsInconclusiveWithTooFewRepetitionsAndSaysHowManyWouldDo) {
  const Regression one = compared(measured(600, 20, 1), measured(700, 20, 1));
  EXPECT_EQ(trend(one, gemm), "inconclusive") << "one value against one proves nothing, not even 14 %";
  EXPECT_EQ(one.exit_code, 3);
  EXPECT_EQ(change_of(one, gemm).needed, 5u) << "2 comparisons: 1/C(10,5) = 0.004 is below 0.005";
  EXPECT_EQ(change_of(one, gemm).detail, "too few: 1 and 1 repetitions, 5 each would do");
  EXPECT_EQ(trend(compared(measured(600, 20, 5), measured(700, 20, 5)), gemm), "worse") << "as it said";
}

TEST(Regression, IsSureOfNoLossBeforeItIsSureOfOne) {
  const Regression three = compared(measured(700, 20, 3), measured(700, 20, 3));
  EXPECT_EQ(trend(three, gemm), "same") << "three quiet repetitions exclude a loss of 2 %";
  EXPECT_EQ(trend(compared(measured(600, 20, 3), measured(700, 20, 3)), gemm), "inconclusive");
}

TEST(Regression, IsInconclusiveWhereRepetitionsDoNotRepeat) {
  const auto noisy = [](double tflops, int phase) {
    ResultsBuilder builder;
    for (int i = 0; i < 9; ++i) builder.add(gemm, "tflops", tflops * (1 + 0.02 * ((7 * i + phase) % 9 - 4)));
    return builder;
  };
  const Regression regression = compared(noisy(690, 3), noisy(700, 0));
  EXPECT_EQ(trend(regression, gemm), "inconclusive");
  EXPECT_EQ(regression.exit_code, 3);
  const Change& change = change_of(regression, gemm);
  EXPECT_EQ(change.detail.rfind("too noisy (5.", 0), 0u) << change.detail;
  EXPECT_GT(change.needed, 100u) << "2 % in a noise of 5 %";
}

TEST(Regression, TakesALaunchForTheUnitWhereThereAreSeveral) {
  // Nine repetitions each, but alike within a launch: two launches, two values.
  const auto before = launches({700, 701}, "old", 9), now = launches({680, 681}, "new", 9);
  const Regression regression = judge_regression(now, baseline_of(before));
  EXPECT_EQ(change_of(regression, gemm).before_count, 2u);
  EXPECT_EQ(trend(regression, gemm), "inconclusive") << "18 values on each side would be called a proof";
  const Regression nine = judge_regression(launches({681, 680, 682, 679, 683, 678, 684, 677, 685}, "new"),
                                           baseline_of(launches({700, 701, 702, 703, 704, 705, 706, 707, 708}, "old")));
  EXPECT_EQ(trend(nine, gemm), "worse");
  EXPECT_TRUE(nine.notes.empty());
  EXPECT_NE(compared(measured(700, 20), measured(700, 20)).notes.at(0).find("one launch"), std::string::npos)
      << "repetitions of one launch are compared, and what they cannot show is said";
}

TEST(Regression, IsNotMovedByAWildRepetition) {
  auto now = measured(700, 20, 8);
  now.add(gemm, "tflops", 100).add(small, "latency_us", 20);
  EXPECT_EQ(trend(compared(now, measured(700, 20)), gemm), "same");
}

TEST(Regression, MissesWhatTheBaselineHas) {
  const Regression gone = compared(ResultsBuilder().add(gemm, "tflops", 700), measured(700, 20));
  EXPECT_EQ(trend(gone, small), "missing");
  EXPECT_EQ(gone.exit_code, 1);
  auto failed = measured(700, 20);
  failed.rows.clear();
  failed.add_error(gemm, "wrong data");
  const Regression broken = compared(failed, measured(700, 20));
  EXPECT_EQ(trend(broken, gemm), "missing");
  EXPECT_EQ(change_of(broken, gemm).detail, "wrong data");
}

TEST(Regression, MissesABenchmarkThatFailedInOneRepetition) {
  auto now = measured(700, 20, 8);
  now.add_error(gemm, "wrong data").add(small, "latency_us", 20);
  const Regression regression = compared(now, measured(700, 20));
  EXPECT_EQ(trend(regression, gemm), "missing");
  EXPECT_EQ(regression.exit_code, 1);
}

TEST(Regression, MissesWhatFailedNowEvenIfTheBaselineHasNoneOfIt) {
  auto now = ResultsBuilder().add(gemm, "tflops", 700).add_error(small, "wrong data");
  const auto no_baseline = ResultsBuilder().add(gemm, "tflops", 700);
  auto bad_baseline = no_baseline;
  bad_baseline.add_error(small, "timed out");
  for (const auto& before : {no_baseline, bad_baseline}) {
    const Regression regression = compared(now, before);
    EXPECT_EQ(trend(regression, small), "missing");
    EXPECT_EQ(change_of(regression, small).detail, "wrong data");
    EXPECT_EQ(regression.exit_code, 1);
    const auto findings = judge_by_baseline({now.results()}, baseline_of({before.results()}), default_tolerance);
    EXPECT_EQ(findings[1].status, Status::missing);
  }
  const Regression nothing_else = compared(ResultsBuilder().add_error(small, "wrong data"), no_baseline);
  EXPECT_EQ(nothing_else.exit_code, 1) << "nothing can be compared, but it is known why";
}

TEST(Regression, ShowsWhatIsNewAndAccepts) {
  auto before = measured(700, 20);
  auto now = measured(700, 20);
  now.add("hbm/op:copy/engine:sm/bytes:8", "hbm_gb_per_s", 4000);
  const Regression regression = compared(now, before);
  EXPECT_EQ(trend(regression, "hbm/op:copy/engine:sm/bytes:8"), "new");
  EXPECT_EQ(regression.exit_code, 0);
}

TEST(Regression, ComparesOneFamilyIfAsked) {
  RegressionOptions options;
  options.families = {{"gemm"}};
  const Regression regression = compared(ResultsBuilder().add(gemm, "tflops", 700), measured(700, 20), options);
  ASSERT_EQ(regression.changes.size(), 1u);
  EXPECT_EQ(regression.changes[0].key, gemm);
}

TEST(Regression, RefusesSetsThatHaveNothingInCommon) {
  auto waived = ResultsBuilder().add_waiver(gemm, "needs 300 GB");
  EXPECT_NE(refusal(waived, waived).find("nothing to compare"), std::string::npos);
  auto failed = ResultsBuilder().add_error(gemm, "wrong data");
  EXPECT_NE(refusal(measured(700, 20), failed).find("nothing to compare"), std::string::npos) << "all of it is new";
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
  EXPECT_NE(refused([](Context& c) { c.nccl.nvls = "on"; }).find("nvls is off, the baseline has on"),
            std::string::npos);
  EXPECT_NE(refused([](Context& c) { c.tier = "full"; }).find("tier is quick, the baseline has full"),
            std::string::npos);
  EXPECT_NE(refused([](Context& c) { c.suite.build_type = "Debug"; }).find("build_type is"), std::string::npos);
  EXPECT_NE(refused([](Context& c) { c.backend = "host"; }).find("backend is"), std::string::npos);
  EXPECT_NE(refused([](Context& c) {
              c.hosts = 2;
              c.ranks.back().host = "node1";
              c.ranks.back().local_rank = 0;
            }).find("hosts is 1, the baseline has 2"),
            std::string::npos);
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
  for (const char* variable :
       {"CUDA_VISIBLE_DEVICES", "SLURM_JOB_NUM_NODES", "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}) {
    elsewhere.context.environment[variable] = "1";
  }
  EXPECT_EQ(refusal(elsewhere, plain), "") << "these say where it ran, not how";
}

TEST(Regression, TakesTheTransportOfMpiForTuningOnHostsOnly) {
  auto plain = measured(700, 20);
  auto tuned = plain;
  tuned.context.environment["OMPI_MCA_pml"] = "ob1";
  EXPECT_EQ(refusal(tuned, plain), "");
  plain.context.backend = tuned.context.backend = "host";
  EXPECT_NE(refusal(tuned, plain).find("OMPI_MCA_pml is ob1, the baseline has unset"), std::string::npos);
}

TEST(Regression, ComparesAnotherConfigurationIfAskedAndSaysSo) {
  auto now = measured(700, 20), before = measured(700, 20);
  before.context.versions["driver"] = "570.1";
  before.context.tier = "full";
  RegressionOptions options;
  options.allow_different = true;
  const Regression regression = compared(now, before, options);
  EXPECT_EQ(trend(regression, gemm), "same");
  ASSERT_GE(regression.notes.size(), 2u);
  EXPECT_EQ(regression.notes[0], "compared although driver is 580.159, the baseline has 570.1");
  EXPECT_EQ(regression.notes[1], "compared although tier is quick, the baseline has full");
}

TEST(Regression, SaysOfACopyThatItIsNone) {
  const auto said = [](const std::vector<Results>& now, const std::vector<Results>& before) {
    std::string all;
    for (const auto& note : judge_regression(now, baseline_of(before)).notes) all += note + "; ";
    return all;
  };
  const std::vector<double> rates{700.0001, 701.0002, 702.0003};
  const auto before = launches(rates, "old", 3), now = launches({700.1001, 701.1002, 702.1003}, "new", 3);
  EXPECT_EQ(said(now, before).find("the same figures"), std::string::npos);
  EXPECT_EQ(said(now, before).find("in the baseline"), std::string::npos);
  EXPECT_NE(said(before, before).find("launch old2@node0 is in the baseline: what is compared with itself"),
            std::string::npos);
  EXPECT_NE(said(launches(rates, "new", 3), before).find("launch new2@node0 is in the baseline as old2@node0"),
            std::string::npos);
  EXPECT_NE(said(now, launches({700.0001, 700.0001}, "old", 3)).find("old0@node0 and old1@node0 have the same figures"),
            std::string::npos);
  EXPECT_EQ(said(launches({700}), launches({700})).find("in the baseline"), std::string::npos)
      << "one round figure repeats by accident";
}

TEST(Regression, RefusesNothingAndSillyOptions) {
  const auto results = std::vector{measured(700, 20).results()};
  const Baseline baseline = baseline_of(results);
  EXPECT_THROW(judge_regression({}, baseline), InputError);
  for (const double effect : {0.0, 1.0, -0.1}) {
    RegressionOptions options;
    options.min_effect = effect;
    EXPECT_THROW(judge_regression(results, baseline, options), InputError);
  }
  EXPECT_THROW(judge_by_baseline(results, baseline, 1.0), InputError);
  EXPECT_THROW(judge_by_baseline(results, baseline, -0.1), InputError);
}

// ---------------------------------------------------------------------------------------------------------------------
// A single run held against a baseline, for a verdict

TEST(ByBaseline, BecomesFindingsOfAVerdict) {
  const auto findings = judge_by_baseline({measured(600, 20, 1).results()},
                                          baseline_of({measured(700, 20, 1).results()}), default_tolerance);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[1].key, gemm);
  EXPECT_EQ(findings[1].judgement, Judgement::baseline);
  EXPECT_EQ(findings[1].status, Status::fail);
  EXPECT_NEAR(findings[1].limit->value, 665, 1);
  EXPECT_EQ(findings[1].detail, "-14.3 %");
  EXPECT_EQ(findings[1].source, "baseline 699.44 of 1 launch");
  EXPECT_NE(findings[1].next.find("bench_gemm"), std::string::npos);
  EXPECT_EQ(findings[0].status, Status::pass);
}

TEST(ByBaseline, NamesTheRankToLookAt) {
  auto now = ResultsBuilder().add(gemm, "tflops", 600, {700, 700, 600, 700});
  now.by_rank("seconds", {1.0, 1.0, 1.2, 1.0});
  const auto findings = judge_by_baseline({now.results()}, baseline_of(launches({700})), default_tolerance);
  ASSERT_TRUE(findings[0].worst);
  EXPECT_EQ(text(*findings[0].worst), "rank 2 node0 GPU-1002 0000:12:00.0");
}

TEST(ByBaseline, LeavesAsMuchRoomAsTheBaselineItselfNeeded) {
  // Launches of one machine that differ by some 6 %, as power-limited GEMM does.
  const Baseline noisy = baseline_of(launches({700, 660, 740, 680, 720, 650, 750, 690, 710}));
  const auto status_of = [&](double tflops) {
    return judge_by_baseline(launches({tflops}), noisy, default_tolerance)[0].status;
  };
  EXPECT_EQ(status_of(690), Status::pass);
  EXPECT_EQ(status_of(650), Status::inconclusive) << "beyond 5 %, but the baseline has seen that";
  EXPECT_EQ(status_of(500), Status::fail);
  EXPECT_EQ(status_of(900), Status::pass) << "nobody is accused of being fast";
}

// Launches of the same GPUs, a minute apart: small messages, and PCIe with all GPUs at once, differ by more than 5 %.
TEST(ByBaseline, OfOneLaunchFailsNoOtherLaunchOfTheSameGpusButASlowOne) {
  const std::filesystem::path stored = SHAKEDOWN_SOURCE_DIR "/ci/baselines/h200-sxm";
  const std::map<std::string, std::vector<std::string>> launches{{"2ranks", {"1", "2", "3"}}, {"4ranks", {"1", "2"}}};
  std::size_t pairs = 0, inconclusive = 0;
  for (const auto& [ranks, names] : launches) {
    for (const auto& before : names) {
      const Baseline baseline = baseline_of(read_results(std::vector{stored / ranks / before}));
      for (const auto& after : names) {
        if (after == before) continue;
        ++pairs;
        auto now = read_results(std::vector{stored / ranks / after});
        for (const Finding& f : judge_by_baseline(now, baseline, default_tolerance)) {
          EXPECT_TRUE(f.good() || f.status == Status::inconclusive) << ranks << " " << f.key << " " << f.detail;
          if (f.status == Status::inconclusive) ++inconclusive;
        }
        for (Results& file : now) {
          for (Row& row : file.rows) {
            for (auto& [metric, value] : row.metrics) value *= lower_is_better(metric) ? 1 / 0.7 : 0.7;
          }
        }
        for (const Finding& f : judge_by_baseline(now, baseline, default_tolerance)) {
          const bool of_host = f.key.starts_with("jitter/") || f.key.starts_with("launch/");
          const bool of_latency = of_host || f.metric == "latency_us_vs_baseline";
          EXPECT_TRUE(of_latency || f.status == Status::fail) << ranks << " " << f.key << " " << f.detail;
        }
      }
    }
  }
  EXPECT_EQ(pairs, 8u);
  EXPECT_GT(inconclusive, 0u) << "where it cannot decide, it says so";
}

// One H200 of each of three machines, and one H100 of each of two, three launches on each: too few to call anything
// worse.
TEST(Regression, BetweenStoredMachinesIsNoneAndALossOfATenthIsNotCalledTheSame) {
  const std::filesystem::path stored = SHAKEDOWN_SOURCE_DIR "/ci/baselines";
  const auto of_machine = [&](const std::string& kind, int first) {
    std::vector<std::filesystem::path> folders;
    for (int i = first; i < first + 3; ++i) folders.push_back(stored / kind / "1ranks" / std::to_string(i));
    return read_results(folders);
  };
  const auto count = [](const Regression& regression, Trend trend, std::string_view family) {
    return std::count_if(regression.changes.begin(), regression.changes.end(), [&](const Change& change) {
      // Before the fourth launch, copies from the host were measured while the driver cleared memory.
      return change.trend == trend && change.key.starts_with(family) && change.key != "pcie/op:h2d/bytes:268435456";
    });
  };
  const std::map<std::string, std::vector<int>> machines{{"h200-sxm", {1, 4, 7}}, {"h100-sxm", {1, 4}}};
  for (const auto& [kind, firsts] : machines) {
    for (const int before : firsts) {
      const Baseline baseline = baseline_of(of_machine(kind, before));
      for (const int after : firsts) {
        if (after == before) continue;
        SCOPED_TRACE(kind + " " + std::to_string(before) + " " + std::to_string(after));
        auto now = of_machine(kind, after);
        const auto as_they_are = judge_regression(now, baseline);
        EXPECT_EQ(count(as_they_are, Trend::worse, ""), 0);
        EXPECT_EQ(count(as_they_are, Trend::missing, ""), 0);
        EXPECT_GE(count(as_they_are, Trend::same, ""), 60) << "of " << as_they_are.compared;
        for (Results& file : now) {
          for (Row& row : file.rows) {
            if (!row.key.starts_with("gemm/")) continue;
            for (auto& [metric, value] : row.metrics) value *= lower_is_better(metric) ? 1 / 0.9 : 0.9;
          }
        }
        EXPECT_EQ(count(judge_regression(now, baseline), Trend::same, "gemm/"), 0);
      }
    }
  }
}

TEST(ByBaseline, LooksAtOneFamilyIfAsked) {
  const auto now = std::vector{ResultsBuilder().add(gemm, "tflops", 700).results()};
  const Baseline baseline = baseline_of({measured(700, 20).results()});
  EXPECT_EQ(judge_by_baseline(now, baseline, default_tolerance, {{"gemm"}}).size(), 1u);
  EXPECT_EQ(judge_by_baseline(now, baseline, default_tolerance).size(), 2u) << "the AllReduce is missing";
  EXPECT_THROW(judge_by_baseline(now, baseline, default_tolerance, {{"nosuch"}}), InputError);
}

}  // namespace
}  // namespace shakedown::regression_test
