// Tests the comparison of settings: that it finds what is planted, and that it recommends nothing if all are equal. The
// noise is from data: launches of this program on a busy host, and the tails of stored launches on GPUs.
#include "thresholds/history/tuning.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/files.hpp"
#include "base/statistics.hpp"
#include "report/tuning.hpp"
#include "tests/nightly.hpp"

namespace shakedown {
namespace {

const std::vector<std::uint64_t> sizes{65536, 1048576, 33554432, 536870912};

/// Returns the GB/s of launch number `launch` of a run, which has the setting `which` (0: the defaults).
using Launched = std::function<double(std::size_t launch, std::size_t which, std::uint64_t bytes)>;

Tuning tuned(std::vector<MeasuredSetting> settings, const Launched& value, int rounds) {
  MeasuredSetting defaults;
  std::size_t launch = 0;
  for (int round = 0; round < rounds; ++round) {
    for (const auto which : launches_of_round(settings.size(), round)) {
      auto& setting = which == 0 ? defaults : settings[which - 1];
      for (const auto bytes : sizes) setting.values[{"allreduce", bytes}].push_back(value(launch, which, bytes));
      ++launch;
    }
  }
  return judge_tuning(defaults, settings, rounds, default_min_effect);
}

std::vector<MeasuredSetting> named(std::size_t count) {
  std::vector<MeasuredSetting> settings(count);
  for (std::size_t i = 0; i < count; ++i) settings[i].variables = {"NCCL_TEST=" + std::to_string(i + 1)};
  return settings;
}

/// Stored launches show the tails of Student's distribution with 4 degrees of freedom, and standard deviations of 1 %
/// (large messages) to 12 % (small ones; docs/statistics.md).
class LaunchNoise {
 public:
  explicit LaunchNoise(std::uint32_t seed) : random_(seed) {}
  double operator()(double sigma) { return 1 + sigma * tails_(random_); }

 private:
  std::mt19937 random_;
  std::student_t_distribution<double> tails_{4};
};

double sigma_of(std::uint64_t bytes) { return bytes <= 65536 ? 0.12 : bytes <= 1048576 ? 0.03 : 0.01; }

TEST(Tuning, NeedsMoreRoundsForMoreComparisons) {
  EXPECT_LT(rounds_needed(1, 1), rounds_needed(10, 4));
  for (const auto& [settings, count] : {std::pair<std::size_t, std::size_t>{1, 1}, {3, 3}, {10, 4}, {40, 8}}) {
    const auto rounds = static_cast<std::size_t>(rounds_needed(settings, count));
    EXPECT_LE(smallest_p(2 * rounds, rounds), false_recommendation / static_cast<double>(settings * count));
  }
}

TEST(Tuning, AlternatesSoThatADriftAffectsAllSettingsAlike) {
  EXPECT_EQ(launches_of_round(3, 0), (std::vector<std::size_t>{0, 1, 2, 3, 0}));
  EXPECT_EQ(launches_of_round(3, 1), (std::vector<std::size_t>{0, 3, 2, 1, 0}));
  const auto drifting = [](std::size_t launch, std::size_t, std::uint64_t) {
    return 100.0 + 0.2 * static_cast<double>(launch);
  };
  const Tuning tuning = tuned(named(3), drifting, rounds_needed(3, sizes.size()));
  EXPECT_EQ(tuning.best(), nullptr);
  for (const auto& setting : tuning.settings) {
    for (const auto& change : setting.changes) EXPECT_NEAR(*change.percent, 0, 1.5);
  }
}

TEST(Tuning, FindsAPlantedGainAndAPlantedCost) {
  int found = 0, priced = 0;
  constexpr int runs = 20;
  for (int run = 0; run < runs; ++run) {
    LaunchNoise noise(1000 + static_cast<std::uint32_t>(run));
    auto settings = named(6);
    settings[2].is_in_use = true;
    const auto value = [&](std::size_t, std::size_t which, std::uint64_t bytes) {
      const double factor = which == 5 && bytes > 1048576 ? 1.06 : which == 3 ? 0.5 : 1;
      return 300 * factor * noise(sigma_of(bytes));
    };
    const Tuning tuning = tuned(settings, value, rounds_needed(6, sizes.size()));
    if (tuning.best() != nullptr && tuning.best()->measured.text() == "NCCL_TEST=5") ++found;
    if (tuning.exit_code() == 1 && tuning_line(tuning).find("NCCL_TEST=3 costs") != std::string::npos) ++priced;
  }
  EXPECT_GE(found,
            runs / 2);  // in small messages, 12 % of noise may look like a loss, which prevents the recommendation
  EXPECT_EQ(priced, runs);
}

TEST(Tuning, DoesNotRecommendASettingThatLosesInOneSize) {
  LaunchNoise noise(7);
  const auto value = [&](std::size_t, std::size_t which, std::uint64_t bytes) {
    const double factor = which == 0 ? 1 : bytes == sizes.back() ? 1.3 : bytes == sizes.front() ? 0.7 : 1;
    return 300 * factor * noise(0.01);
  };
  const Tuning tuning = tuned(named(1), value, rounds_needed(1, sizes.size()));
  EXPECT_EQ(tuning.settings.front().advice, Advice::mixed);
  EXPECT_EQ(tuning.best(), nullptr);
  EXPECT_EQ(tuning.exit_code(), 0) << "the setting is not in use";
}

TEST(Tuning, RecommendsASettingOfTheStepApartFromThoseOfSizes) {
  LaunchNoise noise(31);
  const TunedRow step{"train_step/model:gpt2_tiny", 0}, message{"collectives/op:alltoall", 1048576};
  auto settings = named(2);
  MeasuredSetting defaults;
  const int rounds = rounds_needed(settings.size(), 2);
  for (int launch = 0; launch < 2 * rounds; ++launch) {
    defaults.values[step].push_back(5000 * noise(0.005));
    defaults.values[message].push_back(100 * noise(0.005));
  }
  for (int launch = 0; launch < rounds; ++launch) {
    settings[0].values[message].push_back(110 * noise(0.005));
    settings[1].values[step].push_back(5500 * noise(0.005));
  }
  const Tuning tuning = judge_tuning(defaults, settings, rounds, default_min_effect);
  ASSERT_NE(tuning.best(), nullptr);
  ASSERT_NE(tuning.best_for_step(), nullptr);
  EXPECT_EQ(tuning.best()->measured.text(), "NCCL_TEST=1");
  EXPECT_EQ(tuning.best()->changes.front().key.text(), "collectives/op:alltoall/bytes:1048576");
  EXPECT_EQ(tuning.best_for_step()->measured.text(), "NCCL_TEST=2");
  EXPECT_NE(tuning_line(tuning).find("NCCL_TEST=2, +"), std::string::npos);
}

TEST(Tuning, DecidesNothingInTooFewRounds) {
  const auto value = [](std::size_t, std::size_t which, std::uint64_t) { return which == 0 ? 100.0 : 200.0; };
  const Tuning tuning = tuned(named(2), value, 1);
  EXPECT_EQ(tuning.best(), nullptr);
  EXPECT_EQ(tuning.exit_code(), 3);
  EXPECT_NE(tuning_line(tuning).find("1 of "), std::string::npos);
}

TEST(Tuning, AnswersIfNoSettingCouldBeMeasured) {
  auto settings = named(2);
  for (auto& setting : settings) setting.missing = "invalid usage \xff";
  const Tuning tuning =
      judge_tuning({{}, false, {{{"allreduce", 65536}, {1, 2, 3}}}, {}, {}}, settings, 3, default_min_effect);
  EXPECT_EQ(tuning.settings.front().advice, Advice::unavailable);
  EXPECT_EQ(tuning.exit_code(), 3);
  EXPECT_TRUE(nlohmann::json::accept(tuning_json(tuning)));
  EXPECT_EQ(judge_tuning({}, {}, 0, default_min_effect).exit_code(), 3);
}

TEST(Tuning, RecommendsNothingIfAllSettingsAreEqual) {
  constexpr int all = 300, on_each_change = 60;
  const int runs = testing_support::is_nightly() ? all : on_each_change;
  int recommended = 0, costs = 0;
  for (int run = 0; run < runs; ++run) {
    LaunchNoise noise(50'000 + static_cast<std::uint32_t>(run));
    auto settings = named(8);
    settings[0].is_in_use = true;
    const auto value = [&](std::size_t launch, std::size_t, std::uint64_t bytes) {
      const double drift = 1 + 0.02 * std::sin(static_cast<double>(launch) / 15 + run);
      return 300 * drift * noise(sigma_of(bytes));
    };
    const Tuning tuning = tuned(settings, value, rounds_needed(8, sizes.size()));
    if (tuning.best() != nullptr) ++recommended;
    if (tuning.exit_code() == 1) ++costs;
  }
  EXPECT_EQ(recommended, 0) << "of " << runs;
  EXPECT_EQ(costs, 0) << "of " << runs;
}

/// Each run is a window of consecutive launches of a busy host, whose figures change by a factor of 1,000 within a
/// minute. The windows overlap, so that they are not 300 independent samples.
TEST(Tuning, RecommendsNothingAmongLaunchesOfABusyHost) {
  const auto file = std::filesystem::path(SHAKEDOWN_SOURCE_DIR) / "tests/data/tune-launches.json";
  const auto stored = nlohmann::json::parse(read_file(file)).at("runs");
  const std::vector<std::string> names{"65536", "1048576", "16777216"};
  ASSERT_GE(stored.size(), 3U);
  constexpr int runs = 300;
  std::mt19937 random(271'828);
  int recommended = 0, costs = 0;
  for (int run = 0; run < runs; ++run) {
    const auto& launches = stored.at(random() % stored.size());
    const auto count = launches.at(names.front()).size();
    const auto first = random() % count;
    auto settings = named(3);
    settings[run % 3].is_in_use = true;
    const auto value = [&](std::size_t launch, std::size_t, std::uint64_t bytes) {
      const auto size = static_cast<std::size_t>(std::ranges::find(sizes, bytes) - sizes.begin());
      return launches.at(names[size % names.size()]).at((first + launch) % count).get<double>();
    };
    const Tuning tuning = tuned(settings, value, rounds_needed(3, sizes.size()));
    if (tuning.best() != nullptr) ++recommended;
    if (tuning.exit_code() == 1) ++costs;
  }
  EXPECT_EQ(recommended, 0) << "of " << runs;
  EXPECT_EQ(costs, 0) << "of " << runs;
}

}  // namespace
}  // namespace shakedown
