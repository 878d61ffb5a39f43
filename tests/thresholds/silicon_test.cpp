// Compares GPUs with stored GPUs of their model: the stored launches of ci/baselines, in which GPUs are left out of the
// fit, or changed.
#include "thresholds/rules/silicon.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/judge.hpp"

namespace shakedown::silicon_test {
namespace {

namespace fs = std::filesystem;

using testing_support::shipped_profiles;

const std::vector<Results>& launches_of(const std::string& model) {
  static std::map<std::string, std::vector<Results>> read;
  auto& launches = read[model];
  if (!launches.empty()) return launches;
  std::set<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(SHAKEDOWN_SOURCE_DIR "/ci/baselines/" + model)) {
    if (entry.path().filename() == "gemm.json") files.insert(entry.path());
  }
  for (const auto& file : files) launches.push_back(read_results(file));
  return launches;
}

Silicon fit(const std::string& model, const std::string& without = "") {
  std::vector<const Results*> some;
  for (const Results& launch : launches_of(model)) {
    const auto& ranks = launch.context.ranks;
    if (std::ranges::none_of(ranks, [&](const RankFacts& of) { return of.uuid == without; })) some.push_back(&launch);
  }
  return fit_silicon(some);
}

const Silicon& shipped(const std::string& model) {
  return *std::ranges::find(shipped_profiles(), model, &Profile::name)->silicon;
}

std::string yaml_of(const Silicon& silicon) {
  std::string text;
  for (const SiliconRow& row : silicon.rows) {
    char line[256];
    std::snprintf(line, sizeof line,
                  "    - {benchmark: \"%s\", tile: %d, tflops_per_ghz: %.4g, sm_mhz: %.0f, temperature_c: %.0f}\n",
                  row.benchmark.text().c_str(), row.tile, row.tflops_per_ghz, row.sm_mhz, row.temperature_c);
    text += line;
  }
  return "gpus: " + std::to_string(silicon.gpus) + " clock_spread: " + std::to_string(silicon.clock_spread) + "\n" +
         text;
}

class OfModel : public testing::TestWithParam<std::string> {};

TEST_P(OfModel, HasTheMediansOfTheStoredLaunches) {
  const Silicon fitted = fit(GetParam()), &stated = shipped(GetParam());
  ASSERT_EQ(stated.rows.size(), fitted.rows.size()) << yaml_of(fitted);
  EXPECT_EQ(stated.gpus, fitted.gpus);
  EXPECT_EQ(stated.cublaslt, fitted.cublaslt);
  EXPECT_NEAR(stated.clock_spread, fitted.clock_spread, 1e-4);
  for (std::size_t i = 0; i < stated.rows.size(); ++i) {
    const SiliconRow &is = stated.rows[i], &should = fitted.rows[i];
    EXPECT_EQ(is.benchmark, should.benchmark) << yaml_of(fitted);
    EXPECT_EQ(is.tile, should.tile);
    EXPECT_NEAR(is.tflops_per_ghz / should.tflops_per_ghz, 1, 1e-3) << is.benchmark.text();
    EXPECT_NEAR(is.sm_mhz, should.sm_mhz, 0.6) << is.benchmark.text();
    EXPECT_NEAR(is.temperature_c, should.temperature_c, 0.6) << is.benchmark.text();
  }
}

// 95 % of the launches of GPUs that the fit has not seen must be within 1 % of the expected value. The launches of one
// machine are left out together.
TEST_P(OfModel, ExpectsTheValuesOfGpusThatWereLeftOutOfTheFit) {
  std::size_t launches = 0, close = 0;
  std::set<std::string> gpus;
  double worst = 0;
  for (const Results& launch : launches_of(GetParam())) {
    for (const RankFacts& facts : launch.context.ranks) gpus.insert(*facts.uuid);
  }
  for (const auto& gpu : gpus) {
    const Silicon others = fit(GetParam(), gpu);
    for (const Results& launch : launches_of(GetParam())) {
      for (const SiliconValue& value : compare_silicon(Measured({launch}), others)) {
        if (launch.context.ranks.at(static_cast<std::size_t>(value.rank)).uuid != gpu) continue;
        ++launches;
        close += std::abs(value.work) <= 0.01 ? 1 : 0;
        worst = std::max(worst, std::abs(value.work));
        EXPECT_EQ(value.cause, SiliconCause::none) << launch.file << " rank " << value.rank;
      }
    }
  }
  EXPECT_GE(gpus.size(), 8U);
  EXPECT_GE(launches, 40U);
  EXPECT_GE(static_cast<double>(close), 0.95 * static_cast<double>(launches)) << "worst " << worst;
}

INSTANTIATE_TEST_SUITE_P(Silicon, OfModel, testing::Values("h100-sxm", "h200-sxm"),
                         [](const auto& of) { return of.param == "h100-sxm" ? "H100" : "H200"; });

/// A stored launch of one H200 whose GPU is changed: its work per clock and its clock by a factor, its temperature, and
/// whether a throttle reason takes the place of the power limit.
struct Change {
  double work = 1, clock = 1, heat = 0;
  std::optional<std::string> reason = std::nullopt;
};

Results changed(const Change& change) {
  Results launch = read_results(SHAKEDOWN_SOURCE_DIR "/ci/baselines/h200-sxm/1ranks/1/gemm.json");
  for (Row& row : launch.rows) {
    const bool limited = row.by_rank.contains("sm_mhz") && *row.by_rank.at("sm_mhz").at(0) < 1900;
    const double clock = limited ? change.clock : 1;
    const auto times = [&](const char* name, double factor) {
      if (!row.by_rank.contains(name)) return;
      auto& value = row.by_rank.at(name).at(0);
      if (value) value = *value * factor;
      if (row.metrics.contains(name)) row.metrics.at(name) *= factor;
    };
    times("tflops", change.work * clock);
    times("tflops_per_ghz", change.work);
    times("tflops_per_w", change.work * clock);
    times("sm_mhz", clock);
    times("seconds", 1 / (change.work * clock));
    row.real_time /= change.work * clock;
    if (row.by_rank.contains("temperature_c")) {
      auto& value = row.by_rank.at("temperature_c").at(0);
      if (value) value = *value + change.heat;
    }
    if (change.reason) {
      row.throttle.clear();
      if (!change.reason->empty()) row.throttle[*change.reason] = RankValues{1.0};
    }
  }
  return launch;
}

std::vector<Finding> findings_of(const Change& change) {
  return judge_silicon(Measured({changed(change)}), shipped("h200-sxm")).findings;
}

TEST(Silicon, FindsNothingAboutAHealthyGpu) {
  const auto judgement = judge_silicon(Measured({changed({})}), shipped("h200-sxm"));
  EXPECT_TRUE(judgement.findings.empty());
  EXPECT_FALSE(judgement.summary.empty());
}

TEST(Silicon, FailsOneGpuAloneThatDoesLessWorkPerClock) {
  const auto found = findings_of({.work = 0.97});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].code, Code::silicon);
  EXPECT_EQ(found[0].metric, "work_per_clock");
  EXPECT_TRUE(found[0].counts());
  EXPECT_EQ(found[0].worst->rank, 0);
  EXPECT_EQ(found[0].sure, Sure::twice) << "several products show it";
  EXPECT_NEAR(*found[0].value, 0.97, 0.006);
  EXPECT_TRUE(findings_of({.work = 0.99}).empty()) << "1 % may be the difference of drivers";
}

TEST(Silicon, WarnsOfASlowChipOfHeatAndOfASettingByName) {
  const auto cause = [](const Change& change) {
    const auto found = findings_of(change);
    if (found.size() != 1 || found[0].counts() || found[0].metric != "clock") return std::string("not one warning");
    const auto values = compare_silicon(Measured({changed(change)}), shipped("h200-sxm"));
    return std::string(name(values.at(0).cause));
  };
  EXPECT_EQ(cause({.clock = 0.92}), name(SiliconCause::slow_chip));
  EXPECT_EQ(cause({.clock = 0.92, .reason = "hw_thermal"}), name(SiliconCause::heat));
  EXPECT_EQ(cause({.clock = 0.92, .reason = ""}), name(SiliconCause::setting));
  EXPECT_TRUE(findings_of({.clock = 0.985}).empty()) << "chips differ by more";
}

TEST(Silicon, TellsHeatFromTheChip) {
  const auto at = [](double heat) {
    return compare_silicon(Measured({changed({.heat = heat})}), shipped("h200-sxm")).at(0);
  };
  EXPECT_NEAR(at(20).heat - at(0).heat, -0.005, 1e-6) << "0.025 % for each degree";
  EXPECT_NEAR(*at(20).chip + at(20).heat, *at(0).chip + at(0).heat, 1e-9) << "the clock is the same";
}

TEST(Silicon, ComparesOnlyKernelsThatStoredGpusUsed) {
  Results other = changed({.work = 0.9});
  other.context.versions["cublaslt"] = "12.8.4";
  EXPECT_TRUE(judge_silicon(Measured({other}), shipped("h200-sxm")).summary.empty()) << "another version of cuBLASLt";
  Results tiles = changed({.work = 0.9});
  for (Row& row : tiles.rows) {
    if (row.by_rank.contains("tile")) row.by_rank.at("tile").at(0) = 999.0;
  }
  EXPECT_TRUE(judge_silicon(Measured({tiles}), shipped("h200-sxm")).summary.empty()) << "other tiles";
}

TEST(Silicon, DecidesTheVerdictOfAMachineWithOneGpu) {
  const auto verdict_of = [](double work) {
    std::vector<Results> run = read_results(std::vector<fs::path>{SHAKEDOWN_SOURCE_DIR "/ci/baselines/h200-sxm/1ranks/1"});
    for (Results& file : run) {
      if (file.rows.front().key.family() == "gemm") file = changed({.work = work});
    }
    return judge(Measured(std::move(run)), References(shipped_profiles()), {});
  };
  EXPECT_EQ(verdict_of(1).state, State::pass);
  const Verdict bad = verdict_of(0.97);
  EXPECT_EQ(bad.state, State::fail);
  EXPECT_TRUE(std::ranges::any_of(bad.findings, [](const Finding& f) { return f.code == Code::silicon && !f.good(); }));
}

}  // namespace
}  // namespace shakedown::silicon_test
