// Tests the judgement of soaks: days of rounds on simulated hosts, each round a launch of one machine. The families are
// those that show a GPU that becomes slower.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numbers>

#include "report/rehearsal_outcome.hpp"
#include "tests/nightly.hpp"
#include "thresholds/soak/soak.hpp"

namespace shakedown::rehearsal::soak_test {
namespace {

const std::filesystem::path source = SHAKEDOWN_SOURCE_DIR;

constexpr int weak_rank = 3;
constexpr double hour_s = 3600, day_h = 24, drift_begin_h = 5, drift_h = 10;
/// All GPUs are slower by this share at noon than at midnight.
constexpr double daily_cycle = 0.005;
constexpr std::uint64_t first_day = 6180001;

struct Planted {
  double drift = 0;                   // share that the GPU has lost after drift_h
  double load = 0, from = 0, to = 0;  // share that another program takes between two hours
};

SoakRound make_round(std::uint64_t day, int number, double hour, double part) {
  static const auto profiles = load_profiles(source / "thresholds");
  static const Noise noise = read_noise(source / "thresholds/rehearsal/noise/mixed.yaml");
  Order order;
  order.noise = noise;
  order.seed = day;
  order.launch = static_cast<std::uint64_t>(number);
  order.faults = {{Weakness::all, daily_cycle / 2 * (1 - std::cos(2 * std::numbers::pi * hour / day_h))}};
  order.faults.push_back({Weakness::gpu, part, 0, weak_rank});
  const Fleet fleet(order);
  std::vector<Results> files;
  for (const char* family : {"preflight", "gemm", "hbm"}) {
    files.push_back(fleet.results(family));
    files.back().context.asked.families.names = {"preflight", "gemm", "hbm"};
  }
  const Measured measured(std::move(files));
  SoakRound round;
  summarize(measured, judge(measured, References(profiles), {}), round);
  round.number = number;
  round.started = "2026-11-22T00:00:00Z";
  round.begin_s = hour * hour_s;
  round.boots = {"node0000 boot"};
  if (number > 1) round.ranks.clear();
  return round;
}

SoakRound round_of(std::uint64_t day, int number, double hour, const Planted& planted) {
  const double lost = planted.drift * std::clamp((hour - drift_begin_h) / drift_h, 0.0, 1.0);
  const double part = hour >= planted.from && hour < planted.to ? planted.load : lost;
  if (day != first_day || part != 0) return make_round(day, number, hour, part);
  static std::map<int, SoakRound> healthy;  // the same in each test
  const auto found = healthy.find(number);
  return found != healthy.end() ? found->second
                                : healthy.emplace(number, make_round(day, number, hour, part)).first->second;
}

Soak soak_of(std::uint64_t day, const Planted& planted) {
  const double minutes = testing_support::is_nightly() ? 6 : 12;
  Soak soak;
  soak.plan = {"soak", "2026-11-22T00:00:00Z", day_h * hour_s, day, {"preflight", "gemm", "hbm"}, Tier::quick};
  for (int number = 1; number <= static_cast<int>(day_h * 60 / minutes); ++number) {
    soak.rounds.push_back(round_of(day, number, (number - 1) * minutes / 60, planted));
    soak.rounds.back().length_s = minutes * 60;
  }
  return soak;
}

struct Counts {
  int named = 0, innocent = 0;
  std::string text;
};

/// Counts days on which a finding of `kind` names the weak GPU, and those on which a finding names another part.
Counts counts_of(int days, const Planted& planted, const std::string& kind) {
  Counts counts;
  for (int i = 0; i < days; ++i) {
    const std::uint64_t day = first_day + static_cast<std::uint64_t>(i);
    bool named = false, innocent = false;
    for (const Finding& finding : judge_soak(soak_of(day, planted)).verdict.findings) {
      if (!finding.counts() || finding.good()) continue;
      const bool is_of_weak = finding.offenders.size() == 1 && finding.offenders.front().rank == weak_rank;
      named = named || (is_of_weak && finding.key.text().find(kind) != std::string::npos);
      innocent = innocent || !is_of_weak;
      if (!is_of_weak)
        counts.text += "day " + std::to_string(day) + ": " + finding.key.text() + " " + finding.detail + "\n";
    }
    counts.named += named ? 1 : 0;
    counts.innocent += innocent ? 1 : 0;
  }
  return counts;
}

int days(int nightly) { return testing_support::is_nightly() ? nightly : 1; }

TEST(SoakOfAFleet, OfHealthyGpusNamesNothing) {
  const Counts counts = counts_of(days(100), {}, "");
  EXPECT_EQ(counts.named + counts.innocent, 0) << counts.text;
}

TEST(SoakOfAFleet, NamesAGpuThatLosesTwoPercentInTenHours) {
  const Counts counts = counts_of(days(100), {.drift = 0.02}, "drift");
  fmt::print("drift of 2 %: {} of {} named\n", counts.named, days(100));
  EXPECT_GE(counts.named, 0.95 * days(100));
  EXPECT_EQ(counts.innocent, 0) << counts.text;
}

TEST(SoakOfAFleet, NamesAGpuThatAnotherProgramUsesForTenMinutes) {
  const Counts counts = counts_of(days(20), {.load = 0.5, .from = 9, .to = 9.17}, "slow");
  EXPECT_EQ(counts.named, days(20));
  EXPECT_EQ(counts.innocent, 0) << counts.text;
}

}  // namespace
}  // namespace shakedown::rehearsal::soak_test
