// The judge against generated clusters with planted faults: a few seeds of each, so that a change for the worse is seen
// at once. build/tests/simulate_clusters makes the whole table, with other seeds.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/thresholds/results_builder.hpp"
#include "tests/thresholds/scenarios.hpp"
#include "thresholds/measured.hpp"

namespace shakedown::simulation::simulate_test {
namespace {

constexpr std::uint64_t first_seed = 500000;

Scenario scenario(const std::string& name) {
  for (const Scenario& s : scenarios()) {
    if (s.name == name) return s;
  }
  ADD_FAILURE() << name << " is not among the scenarios";
  return {};
}

void expect_right(const std::string& name, int gpus, int seeds, double least_percent = 99) {
  const Tally tally = run(scenario(name), gpus, seeds, first_seed);
  EXPECT_GE(tally.percent(tally.named), least_percent) << name << " on " << gpus << " GPUs";
  EXPECT_LE(tally.percent(tally.false_alarms), 1) << name << " on " << gpus << " GPUs";
}

TEST(GeneratedClusters, RaiseNoAlarmWhenHealthy) {
  for (const int gpus : {8, 64, 1024}) {
    const Tally tally = run(scenario("nothing"), gpus, gpus > 64 ? 10 : 100, first_seed);
    EXPECT_EQ(tally.detected, 0) << gpus << " GPUs";
  }
  EXPECT_EQ(run(scenario("nothing"), 10000, 3, first_seed).detected, 0);
}

TEST(GeneratedClusters, ShowASlowGpu) {
  for (const int gpus : {8, 64}) expect_right("GPU 5 % slow", gpus, 100);
  expect_right("GPU 5 % slow", 1024, 10);
  expect_right("GPU 5 % slow", 10000, 2);
  expect_right("GPU 5 % slow in GEMM only", 64, 50);
  expect_right("GPU 5 % slow in HBM only", 64, 50);
}

TEST(GeneratedClusters, ShowASlowLinkANodeAndTwoFaultsAtOnce) {
  for (const int gpus : {8, 64}) {
    expect_right("link 20 % slow one way", gpus, 50);
    expect_right("GPU 5 % slow and another link 20 %", gpus, 50);
  }
  expect_right("node 8 % slow", 64, 50);
  expect_right("node 8 % slow", 1024, 5);
}

TEST(GeneratedClusters, ShowHeatALateRankAndAWrongConfiguration) {
  expect_right("GPU's clock 12 % low by heat", 64, 50, 98);
  expect_right("rank 2 ms late", 64, 50);
  expect_right("AllReduce at half, links healthy", 64, 50);
}

TEST(GeneratedClusters, AreNamedAsRightlyWithTheRulesOfAProfile) {
  const auto rules = testing_support::profile(
      "  - {benchmark: \"p2p/op:write/engine:ce/dir:both/src:*/dst:*/bytes:1073741824\", metric: copy_gb_per_s, every: "
      "rank, "
      "min: 728, source: s}\n"
      "  - {benchmark: \"p2p/op:write/engine:ce/shift:1/bytes:1073741824\", metric: copy_gb_per_s, every: rank, min: "
      "368, "
      "source: s}\n"
      "  - {benchmark: \"lora_step/model:qwen2_7b/batch:2/seq:4096\", metric: tokens_per_s, every: rank, min: 15900, "
      "source: s}\n");
  for (const Scenario& s : scenarios_with_profile()) {
    const Tally tally = run(s, 8, 20, first_seed, rules);
    EXPECT_EQ(tally.named, 20) << s.name;
    EXPECT_EQ(tally.false_alarms, 0) << s.name;
  }
}

TEST(GeneratedClusters, DoNotHideASlowGpuBehindThreeTimesTheNoise) {
  const Tally tally = run(scenario("GPU 10 % slow, noise times 3"), 64, 50, first_seed);
  EXPECT_GE(tally.percent(tally.named), 95);
}

TEST(GeneratedClusters, AreTheSameInMemoryAndInFiles) {
  const testing_support::Folder folder;
  Plan plan;
  plan.gpus = 16;
  plan.whole = true;
  plan.faults = {{Fault::Kind::heat, 0.12, 5, 0}};
  write_cluster(plan, folder.path());
  const auto read = read_results(std::vector{folder.path()});
  const auto made = cluster(plan);
  EXPECT_EQ(benchmarks_of(read).size(), 60u);
  std::size_t rows = 0;
  for (const Results& file : made) {
    const auto same = std::find_if(read.begin(), read.end(),
                                   [&](const Results& r) { return r.file.filename() == file.file.filename(); });
    ASSERT_NE(same, read.end());
    ASSERT_EQ(same->rows.size(), file.rows.size());
    for (std::size_t i = 0; i < file.rows.size(); ++i, ++rows) {
      EXPECT_EQ(same->rows[i].by_rank, file.rows[i].by_rank) << file.rows[i].key;
      EXPECT_EQ(same->rows[i].throttle, file.rows[i].throttle) << file.rows[i].key;
    }
  }
  EXPECT_EQ(rows, 300u);
}

}  // namespace
}  // namespace shakedown::simulation::simulate_test
