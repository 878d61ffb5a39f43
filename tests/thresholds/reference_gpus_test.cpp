// Compares GPUs with stored GPUs of their model: the stored runs of ci/baselines, in which GPUs are left out of the
// fit, or changed.
#include "thresholds/rules/reference_gpus.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "base/statistics.hpp"
#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/judge.hpp"

namespace shakedown::reference_gpus_test {
namespace {

namespace fs = std::filesystem;

using testing_support::shipped_profiles;

const std::vector<Results>& runs_of(const std::string& model) {
  static std::map<std::string, std::vector<Results>> read;
  auto& runs = read[model];
  if (!runs.empty()) return runs;
  std::set<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(SHAKEDOWN_SOURCE_DIR "/ci/baselines/" + model)) {
    if (entry.path().filename() == "gemm.json") files.insert(entry.path());
  }
  for (const auto& file : files) runs.push_back(read_results(file));
  return runs;
}

/// Combines stored runs, but none in which the GPU `without` took part: by product and tile, medians over GPUs of the
/// medians over their runs. Products that fewer than three GPUs measured are left out.
ReferenceGpus fit(const std::string& model, const std::string& without = "") {
  struct OfGpu {
    std::vector<double> per_cycle, mhz, heat;
  };
  std::map<std::pair<Key, int>, std::map<std::string, OfGpu>> products;
  std::set<std::string> gpus;
  ReferenceGpus fitted;
  for (const Results& run : runs_of(model)) {
    const auto& ranks = run.context.ranks;
    if (std::ranges::any_of(ranks, [&](const RankFacts& of) { return of.uuid == without; })) continue;
    fitted.cublaslt = run.context.versions.at("cublaslt").value();
    for (const auto& [key, benchmark] : benchmarks_of(std::span(&run, 1))) {
      const bool is_sustained = !key.part("load").empty(), has_tensor = !key.part("dtype").starts_with("f");
      if ((!has_tensor && key.part("dtype") != "fp8_e4m3") || is_sustained || benchmark.waiver() != nullptr) continue;
      for (const RankFacts& facts : ranks) {
        const auto at = [&](const char* name) {
          return rank_values(benchmark, name).at(static_cast<std::size_t>(facts.rank)).value();
        };
        OfGpu& of = products[{key, static_cast<int>(at("tile"))}][*facts.uuid];
        of.per_cycle.push_back(at("tflops") / at("sm_mhz") * 1e6);
        of.mhz.push_back(at("sm_mhz"));
        of.heat.push_back(at("temperature_c"));
        gpus.insert(*facts.uuid);
      }
    }
  }
  fitted.gpus = static_cast<int>(gpus.size());
  fitted.power_limit_w = 700;
  std::map<std::string, std::vector<double>> clocks;  // by GPU: its clock in each product
  for (const auto& [at, by_gpu] : products) {
    if (by_gpu.size() < 3) continue;
    std::vector<double> per_cycle, mhz, heat;
    for (const auto& [gpu, of] : by_gpu) {
      per_cycle.push_back(median(of.per_cycle));
      mhz.push_back(median(of.mhz));
      heat.push_back(median(of.heat));
    }
    fitted.products.push_back({at.first, at.second, median(per_cycle), median(mhz), median(heat)});
    for (const auto& [gpu, of] : by_gpu) {
      clocks[gpu].push_back(median(of.mhz) / median(mhz) + 0.00025 * (median(of.heat) - median(heat)));
    }
  }
  std::vector<double> chips;
  for (auto& [gpu, values] : clocks) chips.push_back(median(std::move(values)));
  fitted.clock_spread = coefficient_of_variation(chips);
  return fitted;
}

const ReferenceGpus& shipped(const std::string& model) {
  return *std::ranges::find(shipped_profiles(), model, &Profile::name)->reference_gpus;
}

/// Returns the section of a profile.
std::string yaml_of(const ReferenceGpus& of) {
  char line[256];
  std::snprintf(line, sizeof line, "  gpus: %d\n  clock_spread: %.4f\n  products:\n", of.gpus, of.clock_spread);
  std::string text = line;
  for (const ReferenceProduct& product : of.products) {
    std::snprintf(line, sizeof line,
                  "    - {benchmark: \"%s\", tile: %d, flop_per_cycle: %.0f, sm_mhz: %.0f, temperature_c: %.0f}\n",
                  product.benchmark.text().c_str(), product.tile, product.flop_per_cycle, product.sm_mhz,
                  product.temperature_c);
    text += line;
  }
  return text;
}

class OfModel : public testing::TestWithParam<std::string> {};

TEST_P(OfModel, HasTheMediansOfTheStoredRuns) {
  const ReferenceGpus fitted = fit(GetParam()), &stated = shipped(GetParam());
  EXPECT_EQ(yaml_of(stated), yaml_of(fitted));
  EXPECT_EQ(stated.cublaslt, fitted.cublaslt);
}

// Each GPU is left out of the fit with all runs of its machine.
TEST_P(OfModel, ExpectsTheWorkPerClockOfGpusThatWereLeftOutOfTheFit) {
  std::size_t compared = 0;
  std::set<std::string> gpus;
  for (const Results& run : runs_of(GetParam())) {
    for (const RankFacts& facts : run.context.ranks) gpus.insert(*facts.uuid);
  }
  for (const auto& gpu : gpus) {
    const ReferenceGpus others = fit(GetParam(), gpu);
    for (const Results& run : runs_of(GetParam())) {
      for (const GpuComparison& of : judge_by_reference_gpus(Measured({run}), others).gpus) {
        if (of.gpu.uuid != gpu) continue;
        ++compared;
        EXPECT_LE(std::abs(of.work), 0.0045) << run.file << " rank " << *of.gpu.rank;
        EXPECT_EQ(of.cause, SlowerBy::nothing) << run.file << " rank " << *of.gpu.rank;
      }
    }
  }
  EXPECT_EQ(gpus.size(), GetParam() == "h100-sxm" ? 8U : 10U);
  EXPECT_EQ(compared, GetParam() == "h100-sxm" ? 47U : 54U);
}

INSTANTIATE_TEST_SUITE_P(ReferenceGpus, OfModel, testing::Values("h100-sxm", "h200-sxm"),
                         [](const auto& of) { return of.param == "h100-sxm" ? "H100" : "H200"; });

/// A stored run of two H200s, in which rank 1 is changed: its work per clock in products of a type, its clock by a
/// factor, its temperature, its power limit, and a throttle reason in place of the power limit.
struct Change {
  double work = 1, clock = 1, heat = 0;
  std::string dtype = "";  // empty: all types
  std::optional<std::string> reason = std::nullopt;
  std::optional<double> power_limit_w = std::nullopt;
};

Results changed(const Change& change) {
  Results run = read_results(SHAKEDOWN_SOURCE_DIR "/ci/baselines/h200-sxm/2ranks/1/gemm.json");
  if (change.power_limit_w) run.context.ranks[1].power_limit_w = change.power_limit_w;
  for (Row& row : run.rows) {
    const double work = change.dtype.empty() || row.key.part("dtype") == change.dtype ? change.work : 1;
    const auto times = [&](const char* name, double factor) {
      if (!row.by_rank.contains(name)) return;
      auto& value = row.by_rank.at(name).at(1);
      if (value) value = *value * factor;
    };
    times("tflops", work * change.clock);
    times("sm_mhz", change.clock);
    if (row.by_rank.contains("temperature_c")) {
      auto& value = row.by_rank.at("temperature_c").at(1);
      if (value) value = *value + change.heat;
    }
    if (!change.reason) continue;
    row.throttle.clear();
    if (!change.reason->empty()) row.throttle[*change.reason] = RankValues{0.0, 1.0};
  }
  return run;
}

ReferenceJudgement judged(const Change& change) {
  return judge_by_reference_gpus(Measured({changed(change)}), shipped("h200-sxm"));
}

TEST(ReferenceGpus, FindNothingAboutHealthyGpus) {
  const auto judgement = judged({});
  EXPECT_TRUE(judgement.findings.empty());
  EXPECT_EQ(judgement.gpus.size(), 2U);
  EXPECT_FALSE(judgement.summary.empty());
}

TEST(ReferenceGpus, FailAGpuThatDoesLessWorkPerClock) {
  const auto severity = [](double work) -> std::optional<Severity> {
    const auto found = judged({.work = work}).findings;
    if (found.empty()) return std::nullopt;
    EXPECT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].code, Code::reference_gpus);
    EXPECT_EQ(found[0].metric, "work_per_clock");
    EXPECT_EQ(found[0].worst->rank, 1);
    EXPECT_EQ(found[0].sure, Sure::twice) << "several products show it";
    return found[0].severity;
  };
  EXPECT_EQ(severity(0.96), Severity::fail);
  EXPECT_EQ(severity(0.975), Severity::warn) << "other drivers may differ by as much";
  EXPECT_EQ(severity(0.99), std::nullopt);
}

TEST(ReferenceGpus, NeedMoreThanOneProduct) {
  EXPECT_EQ(judged({.work = 0.9, .dtype = "bf16"}).gpus.at(1).cause, SlowerBy::nothing)
      << "products in fp8 do their work";
  EXPECT_EQ(judged({.work = 0.9, .dtype = "f32"}).gpus.at(1).work, judged({}).gpus.at(1).work)
      << "they use no tensor cores";
}

TEST(ReferenceGpus, NameTheCauseOfALowClock) {
  const auto cause = [](const Change& change) {
    const auto judgement = judged(change);
    const auto& found = judgement.findings;
    EXPECT_EQ(found.size(), 1U);
    if (found.size() == 1) {
      EXPECT_EQ(found[0].metric, "clock");
      EXPECT_EQ(found[0].severity, Severity::warn);
      EXPECT_EQ(found[0].worst->rank, 1);
    }
    EXPECT_EQ(judgement.gpus.at(0).cause, SlowerBy::nothing);
    return judgement.gpus.at(1).cause;
  };
  EXPECT_EQ(cause({.clock = 0.9}), SlowerBy::slow_chip);
  EXPECT_EQ(cause({.clock = 0.9, .heat = 400}), SlowerBy::heat) << "a temperature that explains most of it";
  EXPECT_EQ(cause({.clock = 0.9, .reason = "hw_thermal"}), SlowerBy::heat);
  EXPECT_EQ(cause({.clock = 0.9, .reason = "hw_power_brake"}), SlowerBy::power_supply);
  EXPECT_EQ(cause({.clock = 0.9, .reason = ""}), SlowerBy::unexplained);
  EXPECT_EQ(cause({.clock = 0.9, .power_limit_w = 500}), SlowerBy::power_limit);
  EXPECT_TRUE(judged({.clock = 0.985}).findings.empty()) << "chips differ by more";
}

TEST(ReferenceGpus, CompareOnlyTheSameKernels) {
  const auto compared = [](Results run) {
    const auto judgement = judge_by_reference_gpus(Measured({std::move(run)}), shipped("h200-sxm"));
    EXPECT_FALSE(judgement.summary.empty()) << "it says why no GPU was compared";
    return judgement.gpus.size();
  };
  Results other = changed({.work = 0.9});
  other.context.versions["cublaslt"] = "12.8.4";
  EXPECT_EQ(compared(other), 0U) << "another version of cuBLASLt";
  Results tiles = changed({.work = 0.9}), missing = tiles, infinite = tiles;
  for (Row& row : tiles.rows) {
    if (row.by_rank.contains("tile")) row.by_rank.at("tile").at(1) = 999.0;
  }
  EXPECT_EQ(compared(tiles), 1U) << "other tiles of rank 1";
  for (Row& row : missing.rows) {
    if (row.by_rank.contains("sm_mhz")) row.by_rank.at("sm_mhz").at(1) = std::nullopt;
  }
  EXPECT_EQ(compared(missing), 1U) << "rank 1 has no clock";
  for (Row& row : infinite.rows) {
    if (row.by_rank.contains("tile")) row.by_rank.at("tile").at(1) = 1e300;
  }
  EXPECT_EQ(compared(infinite), 1U);
}

TEST(ReferenceGpus, DecideTheVerdictOfAMachine) {
  const auto verdict_of = [](double work) {
    auto run = read_results(std::vector<fs::path>{SHAKEDOWN_SOURCE_DIR "/ci/baselines/h200-sxm/2ranks/1"});
    for (Results& file : run) {
      if (file.rows.front().key.family() == "gemm") file = changed({.work = work});
    }
    return judge(Measured(std::move(run)), References(shipped_profiles()), {});
  };
  const Verdict good = verdict_of(1);
  EXPECT_EQ(good.state, State::pass);
  EXPECT_EQ(good.compared_gpus.size(), 2U);
  const Verdict bad = verdict_of(0.96);
  EXPECT_EQ(bad.state, State::fail);
  EXPECT_TRUE(std::ranges::any_of(bad.findings, [](const Finding& f) {
    return f.code == Code::reference_gpus && f.counts() && f.worst->rank == 1;
  }));
}

}  // namespace
}  // namespace shakedown::reference_gpus_test
