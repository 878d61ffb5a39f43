// Tests the lines about a fleet, its racks, leaf switches, firmware, drivers and hosts.
#include "thresholds/culprits/fleet_lines.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/rules/site.hpp"

namespace shakedown::fleet_lines_test {
namespace {

using testing_support::Folder;
using testing_support::profile;
using testing_support::ResultsBuilder;
using testing_support::Values;

const std::string gemm = "gemm/dtype:bf16/m:8192/n:8192/k:8192";
const std::string hbm = "hbm/op:copy/engine:sm/bytes:4294967296";
const std::string gemm_rule = "  - {benchmark: \"" + gemm + "\", metric: tflops, every: rank, min: 600, source: s}\n";

constexpr int gpus = 128, hosts = 16;  // eight in each

/// Chips with small differences; those of some hosts are slower and hotter.
struct Fleet {
  double slower = 0, hotter = 0;
  int first_host = hosts;  // index of the first one

  ResultsBuilder builder() const {
    ResultsBuilder builder(gpus, hosts);
    Values rates, degrees;
    for (int rank = 0; rank < gpus; ++rank) {
      const bool here = rank / 8 >= first_host;
      const double chip = 1 + 0.01 * (rank * 7 % 5 - 2);
      rates.emplace_back(700 * chip * (here ? 1 - slower : 1));
      degrees.emplace_back(50 + rank * 3 % 4 + (here ? hotter : 0));
    }
    builder.add(gemm, "tflops", **std::min_element(rates.begin(), rates.end()), rates);
    builder.by_rank("temperature_c", degrees);
    return builder;
  }
};

/// Four racks of four hosts.
JudgeOptions in_racks() {
  JudgeOptions options;
  for (int host = 0; host < hosts; ++host) {
    options.places.racks["node" + std::to_string(host)] = "r" + std::to_string(host / 4);
  }
  return options;
}

std::vector<FleetLine> standing_off(const Verdict& verdict) {
  auto lines = verdict.fleet.lines;
  std::erase_if(lines, [](const FleetLine& line) { return !line.slow && !line.hot; });
  return lines;
}

std::size_t lines_by(const Verdict& verdict, Grouping by) {
  const auto& lines = verdict.fleet.lines;
  return static_cast<std::size_t>(
      std::count_if(lines.begin(), lines.end(), [&](const FleetLine& line) { return line.by == by; }));
}

TEST(FleetLines, SayThatARackIsSlowerAndHotterAndFailNothing) {
  const Verdict verdict = judge({Fleet{0.025, 8.5, 12}.builder().results()}, profile(gemm_rule), in_racks());
  EXPECT_EQ(verdict.state, State::pass);
  const auto off = standing_off(verdict);
  ASSERT_EQ(std::count_if(off.begin(), off.end(), [](const FleetLine& line) { return line.by == Grouping::rack; }), 1);
  const FleetLine& rack = off.front();
  EXPECT_EQ(rack.group, "r3");
  EXPECT_EQ(rack.name, "gemm");
  EXPECT_EQ(rack.gpus, 32u);
  EXPECT_TRUE(rack.slow);
  EXPECT_TRUE(rack.hot);
  EXPECT_NEAR(rack.faster, -0.025, 0.002);
  EXPECT_NEAR(*rack.hotter_c, 8.5, 0.6);
  EXPECT_LT(rack.p1, rack.median);
  EXPECT_GT(rack.p99, rack.median);
  EXPECT_EQ(lines_by(verdict, Grouping::rack), 4u);
  EXPECT_EQ(lines_by(verdict, Grouping::leaf), 0u) << "their places are unknown";
}

TEST(FleetLines, SayNothingOfWhatIsSmallOrWhatHostsDifferByByChance) {
  EXPECT_TRUE(standing_off(judge({Fleet{0.015, 5, 12}.builder().results()}, {}, in_racks())).empty());
  const auto verdict = judge({Fleet{0.025, 5, 15}.builder().results()}, {}, in_racks());
  EXPECT_TRUE(standing_off(verdict).empty()) << "eight chips of 128 are 2.5 % slower in many fleets";
  EXPECT_EQ(lines_by(verdict, Grouping::host), 16u);
}

TEST(FleetLines, NameAHotHost) {
  const auto off = standing_off(judge({Fleet{0, 9, 15}.builder().results()}, {}, {}));
  ASSERT_EQ(off.size(), 1u);
  EXPECT_EQ(group_text(off[0]), "host node15");
  EXPECT_FALSE(off[0].slow);
}

TEST(FleetLines, CompareFirmwareAndDriversThatPreflightRead) {
  auto builder = Fleet{0.04, 0, 12}.builder();
  std::vector<std::optional<std::string>> vbios, driver(gpus);
  for (int rank = 0; rank < gpus; ++rank) vbios.emplace_back(rank < 96 ? "96.00.A5" : "96.00.88");
  for (std::size_t rank = 0; rank < gpus; rank += 8) driver[rank] = "580.159";
  builder.add_facts("preflight/of:gpu", {}, {{"vbios", vbios}});
  builder.add_facts("preflight/of:host", {}, {{"driver", driver}});
  Verdict verdict = judge({builder.results()}, {}, {});
  EXPECT_EQ(lines_by(verdict, Grouping::driver), 0u) << "all have the same: there is nothing to compare";
  EXPECT_TRUE(std::ranges::any_of(verdict.findings, [](const Finding& f) {
    return f.metric.ends_with("_by_vbios") && f.detail.find("vbios 96.00.88 are") != std::string::npos;
  })) << "a population, which has a finding of its own";
  EXPECT_TRUE(standing_off(verdict).empty());
  for (std::size_t rank = 96; rank < gpus; rank += 8) driver[rank] = "590.10";
  builder.add_facts("preflight/of:host", {}, {{"driver", driver}});
  verdict = judge({builder.results()}, {}, {});
  EXPECT_EQ(lines_by(verdict, Grouping::driver), 2u);
}

TEST(FleetLines, TakeLeavesFromTheRunAndElseFromTheSite) {
  auto builder = Fleet{}.builder();
  for (auto& host : builder.context.inventory) host.leaf = host.host < "node2" ? "a" : "b";
  EXPECT_EQ(lines_by(judge({builder.results()}, {}, {}), Grouping::leaf), 2u);
}

TEST(FleetLines, OfManyHostsKeepThoseThatStandOffAndTheSlowest) {
  ResultsBuilder builder(400, 100);
  Values rates, degrees;
  for (int rank = 0; rank < 400; ++rank) {
    rates.emplace_back(rank / 4 == 70 ? 760 : 700 + rank % 4);
    degrees.emplace_back(rank / 4 == 70 ? 70 : 50);
  }
  builder.add(gemm, "tflops", 700, rates).by_rank("temperature_c", degrees);
  const Verdict verdict = judge({builder.results()}, {}, {});
  ASSERT_EQ(verdict.fleet.lines.size(), max_fleet_lines);
  EXPECT_EQ(verdict.fleet.lines.front().group, "node70") << "hot, and the fastest of all";
}

TEST(FleetLines, SayHowFarTheFleetIsFromItsReferenceAndElseFromItsLimits) {
  ResultsBuilder builder(4);
  builder.add(gemm, "tflops", 680, {680, 714, 714, 714}).add(hbm, "hbm_gb_per_s", 4000);
  const Verdict verdict =
      judge({builder.results()},
            profile("  - {benchmark: \"" + gemm +
                    "\", metric: tflops, every: rank, reference: 700, margin: 0.10, source: s}\n" +
                    "  - {benchmark: \"" + hbm + "\", metric: hbm_gb_per_s, every: run, min: 3200, source: s}\n"),
            {});
  EXPECT_EQ(verdict.state, State::pass);
  ASSERT_EQ(verdict.fleet.levels.size(), 2u);
  EXPECT_EQ(verdict.fleet.levels[0].name, "gemm");
  EXPECT_TRUE(verdict.fleet.levels[0].reference);
  EXPECT_NEAR(verdict.fleet.levels[0].better, 0.02, 1e-9) << "the median GPU, not the worst";
  EXPECT_FALSE(verdict.fleet.levels[1].reference);
  EXPECT_NEAR(verdict.fleet.levels[1].better, 0.25, 1e-9);
}

TEST(FleetLines, LeaveOutLimitsOfSanityFromWhichADistanceSaysNothing) {
  ResultsBuilder builder(4);
  builder.add("launch/op:kernel", "launch_us", 3.5, {3.5, 3.5, 3.5, 3.5}).add(hbm, "hbm_gb_per_s", 4000);
  const auto levels_with = [&](const std::string& most) {
    return judge({builder.results()},
                 profile("  - {benchmark: \"launch/op:kernel\", metric: launch_us, every: rank, max: " + most +
                         ", source: s}\n  - {benchmark: \"" + hbm +
                         "\", metric: hbm_gb_per_s, every: run, min: 3200, source: s}\n"),
                 {})
        .fleet.levels.size();
  };
  EXPECT_EQ(levels_with("5"), 2u);
  EXPECT_EQ(levels_with("50"), 1u);
}

TEST(FleetLines, CompareNoHostsThatShareCores) {
  auto builder = ResultsBuilder::host(8, 2);
  builder.add(hbm, "hbm_gb_per_s", 10, {20, 20, 20, 20, 10, 10, 10, 10});
  EXPECT_TRUE(judge({builder.results()}, {}, {}).fleet.lines.empty());
}

}  // namespace
}  // namespace shakedown::fleet_lines_test
