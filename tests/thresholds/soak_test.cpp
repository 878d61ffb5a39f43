#include "thresholds/soak/soak.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/judge.hpp"

namespace shakedown::soak_test {
namespace {

using testing_support::Folder;

const std::string gemm = "gemm/dtype:bf16/m:8192/n:8192/k:8192", copy = "hbm/op:copy/engine:sm/bytes:4294967296",
                  sum = "allreduce/dtype:f32/bytes:8589934592";

/// Rounds of four GPUs, three minutes each, with the noise of launches: 0.4 % common to all, 0.3 % for each.
class MadeUp {
 public:
  explicit MadeUp(double hours, unsigned seed = 1) : random_(seed) {
    soak.plan = {"watch-1", "2026-11-22T12:00:00Z", hours * 3600, 7, {"gemm", "hbm", "allreduce"}, Tier::quick};
    const ResultsBuilder four;
    for (int number = 1; number <= static_cast<int>(hours * 20); ++number) {
      SoakRound round;
      round.number = number;
      round.started = "2026-11-22T12:00:00Z";
      round.begin_s = 180.0 * (number - 1);
      round.length_s = 180;
      round.boots = {"node0 boot-1"};
      round.state = State::pass;
      round.profile = "h200-sxm";
      round.backend = "cuda";
      round.hosts = 1;
      round.families = round.judged_families = 3;
      if (number == 1) round.ranks = four.context.ranks;
      for (const auto& rank : four.context.ranks) round.units.push_back(*rank.uuid);
      for (const auto& [name, value] :
           {std::pair{FigureName(gemm + " tflops"), 780.0}, {FigureName(copy + " hbm_gb_per_s"), 4200.0}}) {
        const double launch = 1 + 0.004 * normal_(random_);
        for (int rank = 0; rank < 4; ++rank) {
          round.figures[name].push_back(value * launch * (1 + 0.003 * normal_(random_)));
        }
      }
      round.figures[FigureName(sum + " busbw_gb_per_s")] = {360 * (1 + 0.005 * normal_(random_))};
      round.bits[FigureName(gemm + " a")] = {11.0, 11.0, 11.0, 11.0};
      round.counters["xids"] = {0.0, 0.0, 2.0, 0.0};
      soak.rounds.push_back(std::move(round));
    }
  }

  /// A loss from hour `begin` to `end`, growing over `over` hours.
  void slow(std::size_t rank, double part, double begin, double over, double end = 1e9) {
    for (auto& round : soak.rounds) {
      const double hour = round.begin_s / 3600;
      if (hour < begin || hour >= end) continue;
      const double now = over > 0 ? std::min(1.0, (hour - begin) / over) : 1;
      for (auto& [name, values] : round.figures) {
        if (values.size() > rank && values.size() > 1) *values[rank] *= 1 - part * now;
      }
    }
  }

  Soak soak;

 private:
  using ResultsBuilder = testing_support::ResultsBuilder;
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
};

const Finding* find(const Verdict& verdict, const std::string& key) {
  for (const Finding& finding : verdict.findings) {
    if (finding.key == key) return &finding;
  }
  return nullptr;
}

RoundFinding figure_of(const std::string& unit) {
  return {Key(gemm), "tflops", Status::fail, true, {unit}, "5 % below its peers"};
}

TEST(Soak, HealthyDaysRaiseNoAlarm) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    const auto verdict = judge_soak(MadeUp(24, seed).soak).verdict;
    EXPECT_EQ(verdict.state, State::pass) << seed;
    EXPECT_EQ(verdict.findings.size(), 1U) << seed << ": " << verdict.findings.back().detail;
  }
}

TEST(Soak, IsAsLongAsItsRoundsWhateverTheTimeOfDaySays) {
  MadeUp made(24);
  made.soak.rounds.resize(2);
  made.soak.rounds[1].begin_s = 86300;
  const auto verdict = judge_soak(made.soak).verdict;
  EXPECT_EQ(verdict.state, State::incomplete);
  EXPECT_NE(find(verdict, "machine/complete")->detail.find("ran for 0.1 hours of 24.0 hours, in 2 rounds"),
            std::string::npos)
      << find(verdict, "machine/complete")->detail;
}

TEST(Soak, MissesWhatARoundDoesNotSay) {
  const auto status = [](const std::string& key, const auto& change) {
    MadeUp made(3);
    change(made.soak.rounds[7]);
    const auto verdict = judge_soak(made.soak).verdict;
    const auto* const found = find(verdict, key);
    EXPECT_NE(verdict.state, State::pass) << key;
    return found == nullptr ? Status::pass : found->status;
  };
  EXPECT_EQ(status("watch/rounds/of:silent", [](SoakRound& r) { r.state = State::fail; }), Status::missing);
  EXPECT_EQ(status("watch/rounds/of:silent", [](SoakRound& r) { r.state = State::incomplete; }), Status::missing);
  EXPECT_EQ(status("watch/rounds/of:nothing", [](SoakRound& r) { r.judged_families = 0; }), Status::missing);
  EXPECT_EQ(status("watch/rounds/of:nothing", [](SoakRound& r) { r.units.clear(); }), Status::missing);
}

TEST(Soak, IsIncompleteIfARoundWasNotMeasured) {
  const auto state = [](const std::string& key, Status status) {
    MadeUp made(3);
    SoakRound& round = made.soak.rounds[7];
    SoakRound lost;
    lost.number = round.number;
    lost.started = round.started;
    lost.begin_s = round.begin_s;
    lost.length_s = round.length_s;
    round = lost;
    round.findings = {{Key(key), "", status, false, {}, "mkdir: No space left on device"}};
    round.finding_count = 1;
    return judge_soak(made.soak).verdict.state;
  };
  EXPECT_EQ(state("machine/round", Status::inconclusive), State::incomplete);
  EXPECT_EQ(state("machine/complete", Status::missing), State::incomplete) << "the launcher failed";
  EXPECT_EQ(state("machine/round", Status::missing), State::fail) << "ranks died in each of three starts";
}

TEST(Soak, NamesAGpuThatIsNotThereAnyMore) {
  MadeUp made(3);
  for (std::size_t i = 40; i < made.soak.rounds.size(); ++i) {
    SoakRound& round = made.soak.rounds[i];
    round.units.pop_back();
    for (auto& [name, values] : round.figures) values.resize(std::min<std::size_t>(values.size(), 3));
  }
  const auto verdict = judge_soak(made.soak).verdict;
  EXPECT_EQ(verdict.state, State::fail);
  const auto* const gone = find(verdict, "watch/gone/rank:3");
  ASSERT_NE(gone, nullptr);
  EXPECT_EQ(gone->offenders.at(0).uuid, "GPU-1003");
}

TEST(Soak, IsNotReadWhereItsRoundsCannotBe) {
  const MadeUp made(1);
  const auto refusal = [&](const auto& change) -> std::string {
    auto plan = made.soak.plan;
    auto rounds = made.soak.rounds;
    change(plan, rounds);
    const Folder folder;
    std::string text = soak_line(plan);
    for (const auto& round : rounds) text += soak_line(round);
    folder.write("rounds.jsonl", text);
    try {
      read_soak(folder.path());
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal([](auto&, auto&) {}), "");
  EXPECT_NE(refusal([](auto&, auto& rounds) { rounds[4].number = 4; }).find("round 4"), std::string::npos);
  EXPECT_NE(refusal([](auto&, auto& rounds) { rounds[4].unwatched_s = -86400; }).find("negative time"),
            std::string::npos);
  EXPECT_NE(refusal([](auto& plan, auto&) { plan.duration_s = -5; }).find("is not a duration of a soak"),
            std::string::npos);
}

TEST(Soak, AGpuThatLosesThreePercentOverTenHoursIsNamedWithTheHourAndTheTrend) {
  MadeUp made(24);
  made.slow(2, 0.03, 3, 10);
  const auto judged = judge_soak(made.soak);
  EXPECT_EQ(judged.verdict.state, State::fail);
  const auto* const drift = find(judged.verdict, "watch/drift/rank:2");
  ASSERT_NE(drift, nullptr);
  EXPECT_EQ(drift->offenders.at(0).uuid, "GPU-1002");
  const auto from = drift->detail.find("low from hour ");
  ASSERT_NE(from, std::string::npos) << drift->detail;
  const double hour = std::stod(drift->detail.substr(from + 14));
  EXPECT_TRUE(hour >= 7 && hour <= 13) << drift->detail;  // 1.5 % of the 3 are lost at hour 8
  EXPECT_NE(drift->detail.find("; trend -0."), std::string::npos) << drift->detail;
  for (const int other : {0, 1, 3})
    EXPECT_EQ(find(judged.verdict, "watch/drift/rank:" + std::to_string(other)), nullptr);
}

TEST(Soak, WhatAllGpusLoseTogetherAccusesNone) {
  MadeUp made(24);
  for (std::size_t rank = 0; rank < 4; ++rank) made.slow(rank, 0.04, 3, 6);
  const auto verdict = judge_soak(made.soak).verdict;
  const auto* const drift = find(verdict, "watch/drift");
  ASSERT_NE(drift, nullptr);
  EXPECT_TRUE(drift->offenders.empty());
  EXPECT_NE(drift->detail.find("no single GPU"), std::string::npos);
}

TEST(Soak, ANeighbourWhoComesAndGoesIsFoundWithHisTimesAndHisName) {
  MadeUp made(24);
  made.slow(1, 0.4, 5, 0, 5.21);
  made.soak.rounds[100].others = {std::nullopt, "pid 4474 python3", std::nullopt, std::nullopt};
  const auto verdict = judge_soak(made.soak).verdict;
  const auto* const slow = find(verdict, "watch/slow/rank:1");
  ASSERT_NE(slow, nullptr);
  EXPECT_NE(slow->detail.find("from hour 5.0"), std::string::npos) << slow->detail;
  EXPECT_NE(slow->detail.find("to hour 5.2"), std::string::npos) << slow->detail;
  EXPECT_NE(slow->detail.find("pid 4474 python3"), std::string::npos) << slow->detail;
}

TEST(Soak, OneCorruptionInFiveHundredRoundsIsNamedByTheGpusOwnOtherRounds) {
  MadeUp made(25);
  made.soak.rounds.at(321).bits[FigureName(gemm + " a")].at(3) = 12;
  const auto verdict = judge_soak(made.soak).verdict;
  EXPECT_EQ(verdict.state, State::fail);
  const auto* const bits = find(verdict, "watch/bits/rank:3");
  ASSERT_NE(bits, nullptr);
  EXPECT_NE(bits->detail.find("1 of 500 "), std::string::npos) << bits->detail;
  EXPECT_NE(bits->detail.find("at hour 16.1"), std::string::npos) << bits->detail;
}

TEST(Soak, OtherBitsOfAnotherAlgorithmOrOfAllGpusAccuseNobody) {
  MadeUp made(24);
  for (std::size_t i = 300; i < made.soak.rounds.size(); ++i) {
    auto& bits = made.soak.rounds[i].bits;
    if (i < 400) bits = {{FigureName(gemm + " b"), {13.0, 13.0, 13.0, 13.0}}};
    if (i >= 400) bits[FigureName(gemm + " a")] = {14.0, 14.0, 14.0, 14.0};
  }
  EXPECT_EQ(judge_soak(made.soak).verdict.state, State::pass);
}

TEST(Soak, OtherBitsOfAStepWhoseProductsWereTunedAnewAccuseNobody) {
  // Three launches of one H100: each was tuned, and each has different bits.
  const auto watched = [](bool wrong) {
    Soak soak;
    soak.plan = {"w", "2026-11-22T12:00:00Z", 4 * 3600, 7, {"lora_step"}, Tier::quick};
    for (int i = 0; i < 40; ++i) {
      const std::string launch = std::string("/ci/baselines/h100-sxm/1ranks/") + (i == 25 ? "2" : "1");
      auto file = read_results(std::filesystem::path(SHAKEDOWN_SOURCE_DIR + launch + "/lora_step.json"));
      if (wrong && i == 30) *file.rows.front().by_rank["checksum"][0] += 1;
      SoakRound round;
      round.number = i + 1;
      round.started = "2026-11-22T12:00:00Z";
      round.begin_s = 360.0 * i;
      round.length_s = 360;
      round.boots = {"node0 boot-1"};
      Verdict verdict;
      verdict.state = State::pass;
      verdict.judged_families = 1;
      summarize(Measured(std::vector<Results>{file}), verdict, round);
      soak.rounds.push_back(round);
    }
    return judge_soak(soak).verdict;
  };
  EXPECT_EQ(find(watched(false), "watch/bits/rank:0"), nullptr);
  EXPECT_NE(find(watched(true), "watch/bits/rank:0"), nullptr);
}

TEST(Soak, AnErrorCounterThatGrowsIsNamedWithTheHourAndWhatStoodThereBeforeIsNot) {
  MadeUp made(24);
  for (std::size_t i = 140; i < made.soak.rounds.size(); ++i) made.soak.rounds[i].counters["xids"][1] = 1;
  const auto verdict = judge_soak(made.soak).verdict;
  EXPECT_EQ(verdict.state, State::fail);
  const auto* const xids = find(verdict, "watch/counters/of:xids/rank:1");
  ASSERT_NE(xids, nullptr);
  EXPECT_NE(xids->detail.find("hour 7.0"), std::string::npos) << xids->detail;
  EXPECT_EQ(find(verdict, "watch/counters/of:xids/rank:2"), nullptr);
}

TEST(Soak, ACounterThatBeginsAnewWithTheMachineCountsWhatItGrowsFromThere) {
  MadeUp made(24);
  for (std::size_t i = 0; i < made.soak.rounds.size(); ++i) {
    made.soak.rounds[i].counters["xids"][2] = i < 140 ? 5 : i < 200 ? 0 : 1;
  }
  const auto verdict = judge_soak(made.soak).verdict;
  const auto* const xids = find(verdict, "watch/counters/of:xids/rank:2");
  ASSERT_NE(xids, nullptr);
  EXPECT_EQ(xids->value, 1);
  EXPECT_EQ(xids->detail.rfind("xids has grown by 1 since the start, ", 0), 0U) << xids->detail;
}

TEST(Soak, AHostThatWasStartedAnewIsSaidWithTheHourAndIsNoPass) {
  MadeUp made(24);
  for (std::size_t i = 200; i < made.soak.rounds.size(); ++i) {
    made.soak.rounds[i].boots = {"node0 boot-2"};
    made.soak.rounds[i].begin_s += 600;
  }
  made.soak.rounds[200].unwatched_s = 600;
  const auto verdict = judge_soak(made.soak).verdict;
  EXPECT_EQ(verdict.state, State::inconclusive);
  const auto* const restart = find(verdict, "watch/restart/host:node0");
  ASSERT_NE(restart, nullptr);
  EXPECT_NE(restart->detail.find("between hour 10.0"), std::string::npos) << restart->detail;
}

TEST(Soak, ASoakThatWasKilledAndResumedIsJudgedAsOneAndAnEndedOneIsIncomplete) {
  MadeUp made(24);
  for (std::size_t i = 200; i < made.soak.rounds.size(); ++i) made.soak.rounds[i].begin_s += 600;
  made.soak.rounds[200].unwatched_s = 600;
  const auto verdict = judge_soak(made.soak).verdict;
  EXPECT_EQ(verdict.state, State::pass);
  EXPECT_NE(verdict.notes.back().find("0.2 hours"), std::string::npos) << verdict.notes.back();
  made.soak.rounds.pop_back();
  EXPECT_EQ(judge_soak(made.soak).verdict.state, State::incomplete);
}

TEST(Soak, AFigureThatMissesItsLimitOnceIsNotedAndFailsWhereItLasts) {
  MadeUp made(24);
  for (const std::size_t i : {50U, 51U, 200U}) made.soak.rounds[i].findings = {figure_of("GPU-1001")};
  auto verdict = judge_soak(made.soak).verdict;
  EXPECT_EQ(verdict.state, State::pass);
  const auto* noted = find(verdict, "watch/gemm/rank:1");
  ASSERT_NE(noted, nullptr);
  EXPECT_FALSE(noted->counts());
  EXPECT_NE(noted->detail.find("in 3 of 480 rounds"), std::string::npos) << noted->detail;
  made.soak.rounds[52].findings = {figure_of("GPU-1001")};
  verdict = judge_soak(made.soak).verdict;
  EXPECT_EQ(verdict.state, State::fail);
  EXPECT_TRUE(find(verdict, "watch/gemm/rank:1")->counts());
}

TEST(Soak, AFigureThatMissesItsLimitNowAndThenAllDayIsNotedAndInMostRoundsFails) {
  MadeUp made(24);
  std::mt19937 random(3);
  for (auto& round : made.soak.rounds) {
    if (random() % 5 == 0) round.findings = {figure_of("GPU-1001")};
  }
  auto verdict = judge_soak(made.soak).verdict;
  EXPECT_EQ(verdict.state, State::pass);
  ASSERT_NE(find(verdict, "watch/gemm/rank:1"), nullptr);
  for (auto& round : made.soak.rounds) {
    if (random() % 5 < 3) round.findings = {figure_of("GPU-1001")};
  }
  verdict = judge_soak(made.soak).verdict;
  EXPECT_TRUE(find(verdict, "watch/gemm/rank:1")->counts());
}

TEST(Soak, CopiesToABusyHostThatAreSlowInOneRoundAccuseNoGpuAndInTwoDo) {
  MadeUp made(2);
  for (auto& round : made.soak.rounds) {
    const double part = round.number == 21 ? 0.7 : 1;
    for (const char* op : {"h2d", "d2h", "both"}) {
      const FigureName name("pcie/op:" + std::string(op) + "/active:all/bytes:268435456 copy_gb_per_s");
      round.figures[name] = {52 * part, 52.0, 52.0, 52.0};
    }
  }
  EXPECT_EQ(judge_soak(made.soak).verdict.state, State::pass);
  for (auto& [name, values] : made.soak.rounds[21].figures) {
    if (name.key().family() == "pcie") values[0] = 36.0;
  }
  const auto verdict = judge_soak(made.soak).verdict;
  EXPECT_NE(find(verdict, "watch/slow/rank:0"), nullptr);
}

TEST(Soak, TheEndsOfALinkAreOneSuspectAndWhatASlowGpuDoesToOthersAccusesNone) {
  MadeUp made(2);
  for (std::size_t i = 5; i < 12; ++i) {
    made.soak.rounds[i].findings = {{Key("suspect"), "", Status::fail, true, {"GPU-1000", "GPU-1002"}, "slow link"}};
  }
  const auto verdict = judge_soak(made.soak).verdict;
  const auto* const link = find(verdict, "watch/suspect/ranks:0-2");
  ASSERT_NE(link, nullptr);
  EXPECT_EQ(link->offenders.size(), 2U);
  EXPECT_EQ(verdict.total - verdict.passed, 1U);
}

TEST(Soak, WrongDataFailInWhicheverRoundTheyWereSeen) {
  MadeUp made(24);
  made.soak.rounds[50].findings = {{Key(gemm), "tflops", Status::fail, false, {"GPU-1003"}, "wrong data"}};
  const auto verdict = judge_soak(made.soak).verdict;
  EXPECT_EQ(verdict.state, State::fail);
  const auto* const data = find(verdict, "watch/data/gemm/rank:3");
  ASSERT_NE(data, nullptr);
  EXPECT_NE(data->detail.find("at hour 2.5"), std::string::npos) << data->detail;
}

TEST(Soak, AGpuIsFollowedByItsUuidWhenARebootHasNumberedThemAnew) {
  MadeUp made(24);
  for (std::size_t i = 200; i < made.soak.rounds.size(); ++i) {
    auto& round = made.soak.rounds[i];
    std::swap(round.units[0], round.units[3]);
    for (auto& [name, values] : round.figures) {
      if (values.size() > 1) *values[3] *= 0.95;  // that is GPU-1000 now
    }
  }
  const auto verdict = judge_soak(made.soak).verdict;
  ASSERT_NE(find(verdict, "watch/drift/rank:0"), nullptr);
  EXPECT_EQ(find(verdict, "watch/drift/rank:0")->offenders.at(0).uuid, "GPU-1000");
  EXPECT_EQ(find(verdict, "watch/drift/rank:3"), nullptr);
}

TEST(Soak, RoundsAreReadBackAsTheyWereWrittenAndALineThatAKillHasCutOffIsNone) {
  const MadeUp made(1);
  const Folder folder;
  std::string text = soak_line(made.soak.plan);
  for (const auto& round : made.soak.rounds) text += soak_line(round);
  folder.write(std::string(soak_file), text + soak_line(made.soak.rounds.back()).substr(0, 80));
  const auto read = read_soak(folder.path());
  EXPECT_EQ(read.plan.seed, 7U);
  ASSERT_EQ(read.rounds.size(), made.soak.rounds.size());
  std::string again = soak_line(read.plan);
  for (const auto& round : read.rounds) again += soak_line(round);
  EXPECT_EQ(again, text);
  folder.write(std::string(soak_file), text + "{}\n");
  EXPECT_THROW(read_soak(folder.path()), InputError);
  folder.write(std::string(soak_file), "");
  EXPECT_THROW(read_soak(folder.path()), InputError);
}

TEST(Soak, AWeekOfEightGpusTakesLessThanAGigabyte) {
  const std::filesystem::path stored = SHAKEDOWN_SOURCE_DIR "/tests/data/h200-sxm-4ranks-full/1";  // of the full tier
  const Measured measured(read_results(std::vector{stored}));
  JudgeOptions options;
  const auto verdict = judge(measured, load_profiles(SHAKEDOWN_SOURCE_DIR "/thresholds"), options);
  SoakRound round;
  summarize(measured, verdict, round);
  EXPECT_EQ(round.units.size(), 4U);
  EXPECT_GT(round.figures.size(), 50U);
  constexpr double shortest_round = 60;  // seconds; the quick tier takes 90
  EXPECT_LT(2 * static_cast<double>(soak_line(round).size()) * 7 * 86400 / shortest_round, 1e9 / 2);
}

}  // namespace
}  // namespace shakedown::soak_test
