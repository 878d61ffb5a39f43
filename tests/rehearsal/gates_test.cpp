// Tests the error rates of the judge on generated fleets. The table in docs/verdict.md shows results of the nightly
// test.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "report/rehearsal_outcome.hpp"
#include "tests/nightly.hpp"
#include "thresholds/rules/applicability.hpp"
#include "thresholds/rules/site.hpp"

namespace shakedown::rehearsal::gates_test {
namespace {

const std::filesystem::path source = SHAKEDOWN_SOURCE_DIR;

const std::vector<Profile>& shipped_profiles() {
  static const auto profiles = load_profiles(source / "thresholds");
  return profiles;
}

// Other seeds than those of the tuning, which are below 9,000.
constexpr int first_seed = 20000;

/// A noise model, a size, faults ("none" or as in --faults), and the number of fleets in the nightly test.
struct Gate {
  const char* noise;
  int hosts;
  const char* faults;
  int fleets;
};

std::string text(const Gate& gate) { return fmt::format("{}, {} hosts, {}", gate.noise, gate.hosts, gate.faults); }

struct Counts {
  int fleets = 0, failed = 0, first = 0, named = 0, innocent = 0;
};

Counts counts_of(const Gate& gate) {
  Counts counts;
  counts.fleets = testing_support::is_nightly() ? gate.fleets : std::min(gate.fleets, gate.hosts > 1 ? 1 : 2);
  for (int i = 0; i < counts.fleets; ++i) {
    Order order;
    order.limits = &shipped_profiles();
    order.shape.hosts = gate.hosts;
    order.shape.leaf_hosts = 4;
    order.noise = read_noise(source / "thresholds/rehearsal/noise" / (std::string(gate.noise) + ".yaml"));
    order.seed = static_cast<std::uint64_t>(first_seed + i);
    if (gate.faults != std::string("none")) order.faults = placed(parse_faults(gate.faults), order.shape, order.seed);
    const Fleet fleet(order);
    const Verdict verdict = judge_fleet(fleet, shipped_profiles());
    const Outcome outcome = outcome_of(fleet, verdict);
    counts.failed += outcome.state == State::fail ? 1 : 0;
    counts.first += outcome.first ? 1 : 0;
    counts.named += outcome.named ? 1 : 0;
    counts.innocent += outcome.innocent ? 1 : 0;
  }
  return counts;
}

TEST(HealthyFleets, Pass) {
  for (const Gate& gate : {Gate{"calm", 1, "none", 1000},
                           {"stalls", 1, "none", 1000},
                           {"mixed", 1, "none", 1000},
                           {"slots", 1, "none", 1000},
                           {"falling", 1, "none", 1000},
                           {"hot-racks", 1, "none", 1000},
                           {"wandering", 1, "none", 1000},
                           {"vbios", 1, "none", 1000},
                           {"lottery", 1, "none", 1000},
                           {"memory-makers", 1, "none", 1000},
                           {"memory-lots", 8, "none", 300},
                           {"lottery", 8, "none", 300},
                           {"mixed", 8, "none", 300},
                           {"memory-makers", 8, "none", 300},
                           {"vbios", 8, "none", 300},
                           {"calm", 8, "none", 300},
                           {"stalls", 8, "none", 300},
                           {"calm", 64, "none", 20},
                           {"stalls", 64, "none", 50}}) {
    const Counts counts = counts_of(gate);
    EXPECT_EQ(counts.failed, 0) << text(gate) << " of " << counts.fleets;
  }
}

TEST(AFault, IsNamedFirst) {
  for (const Gate& gate : {Gate{"calm", 1, "gemm:0.03", 100},
                           {"calm", 1, "hbm:0.03", 100},
                           {"calm", 1, "gpu:0.03", 100},
                           {"calm", 1, "link:0.5", 100},
                           {"calm", 1, "lane", 100},
                           {"calm", 1, "one_way:0.5", 100},
                           {"calm", 1, "heat:0.12", 100},
                           {"calm", 1, "clock:0.12", 100},
                           {"calm", 1, "power:0.3", 100},
                           {"calm", 1, "data", 100},
                           {"calm", 1, "xid", 100},
                           {"calm", 1, "late:0.002", 100},
                           {"calm", 1, "all:0.1", 100},
                           {"calm", 1, "pcie:0.5", 100},
                           {"calm", 1, "hbm/op:read:0.05", 100},
                           {"calm", 1, "gemm/dtype:fp8:0.05", 100},
                           {"calm", 1, "pcie/op:d2h:0.15", 100},
                           {"calm", 1, "p2p/op:write/engine:sm:0.15", 100},
                           {"calm", 1, "gpu:0.05+late:0.002", 100},
                           {"calm", 1, "gpu:0.05+one_way:0.5", 100},
                           {"calm", 1, "sustained:0.06", 100},
                           {"calm", 1, "gemm/dtype:f64:0.05", 100},
                           {"calm", 1, "p2p/op:read/engine:ce:0.1", 100},
                           {"calm", 1, "hbm:0.04+link:0.2", 100},
                           {"mixed", 1, "gemm:0.03", 100},
                           {"mixed", 1, "hbm:0.03", 100},
                           {"mixed", 8, "hbm:0.03", 60},
                           {"mixed", 1, "p2p/op:read/engine:ce/:0.03", 100},
                           {"mixed", 1, "p2p/op:write/engine:sm:0.15", 100},
                           {"mixed", 1, "hbm:0.04+p2p/op:write/engine:sm:0.15", 100},
                           {"calm", 8, "gpu:0.05", 100},
                           {"memory-makers", 8, "hbm:0.05", 100},
                           {"memory-makers", 8, "host:0.05", 100},
                           {"vbios", 8, "host:0.05", 100},
                           {"calm", 8, "nic:0.5", 100},
                           {"calm", 8, "nics:0.5", 100},
                           {"calm", 8, "hbm:0.04+link:0.2", 100},
                           {"calm", 16, "leaf:0.5", 50},
                           {"calm", 64, "hbm:0.05", 20}}) {
    const Counts counts = counts_of(gate);
    EXPECT_GE(counts.first, 0.99 * counts.fleets) << text(gate) << " of " << counts.fleets;
    EXPECT_GE(counts.named, 0.99 * counts.fleets) << text(gate) << " of " << counts.fleets;
    EXPECT_LE(counts.innocent, 0.005 * counts.fleets) << text(gate) << " of " << counts.fleets;
  }
}

// An AllReduce over all GPUs of two hosts is as slow as the ports of each GPU.
TEST(SlowPortsOfAGpu, AreNamedInsteadOfAPairOfHosts) {
  for (const std::uint64_t seed : {2403019, 2403021, 2403026}) {
    Order order;
    order.limits = &shipped_profiles();
    order.shape.hosts = 8;
    order.shape.leaf_hosts = 4;
    order.noise = read_noise(source / "thresholds/rehearsal/noise/calm.yaml");
    order.seed = seed;
    order.faults = placed(parse_faults("link:0.5"), order.shape, seed);
    const Fleet fleet(order);
    const Verdict verdict = judge_fleet(fleet, shipped_profiles());
    EXPECT_TRUE(outcome_of(fleet, verdict).first) << "seed " << seed;
    for (const Diagnosis& d : verdict.culprits) EXPECT_NE(d.causes.front(), Cause::slow_path) << "seed " << seed;
  }
}

Fleet fleet_of(const char* noise, int hosts, const char* faults, std::uint64_t seed) {
  Order order;
  order.limits = &shipped_profiles();
  order.shape.hosts = hosts;
  order.noise = read_noise(source / "thresholds/rehearsal/noise" / (std::string(noise) + ".yaml"));
  order.seed = seed;
  if (faults != std::string("none")) order.faults = placed(parse_faults(faults), order.shape, seed);
  return Fleet(order);
}

constexpr const char* all_to_all = "collectives/op:alltoall/dtype:f32/bytes:1073741824";

/// Returns the verdict on 128 GPUs with a NIC that is 7 % slow, in which AllToAll has `factor` of its rate.
Verdict with_slow_nic(double factor) {
  std::vector<Results> files = fleet_of("calm", 16, "nic:0.07", 9000002).results();
  for (Results& file : files) {
    for (Row& row : file.rows) {
      if (row.key != all_to_all) continue;
      const auto scale = [&](const std::string& metric, double& value) {
        if (metric.ends_with("_per_s") || metric.ends_with("_per_second")) value *= factor;
        if (metric.ends_with("_us") || metric == "seconds") value /= factor;
      };
      row.real_time /= factor;
      for (auto& [metric, value] : row.metrics) scale(metric, value);
      for (auto& [metric, values] : row.by_rank) {
        for (auto& value : values) scale(metric, *value);
      }
    }
  }
  const Measured measured(std::move(files));
  const Profile& profile = *select_profile(measured.files, shipped_profiles()).profile;
  return judge(measured, References(std::vector{on_site(profile, nullptr, measured)}), {});
}

const Finding& finding_of_all_to_all(const Verdict& verdict) {
  return *std::ranges::find_if(verdict.findings,
                               [](const Finding& f) { return f.key == all_to_all && f.judgement == Judgement::rule; });
}

// Alone, this NIC is a warning in a fleet of 128 GPUs.
TEST(ANicThatIsSevenPercentSlow, ExplainsAllToAll) {
  const Verdict verdict = with_slow_nic(1);
  EXPECT_EQ(verdict.state, State::inconclusive);
  EXPECT_EQ(finding_of_all_to_all(verdict).status, Status::inconclusive);
  EXPECT_EQ(finding_of_all_to_all(verdict).part.kind, PartKind::nic);
  ASSERT_EQ(verdict.culprits.size(), 1U);
  EXPECT_EQ(verdict.culprits.front().causes, std::vector{Cause::slow_nic});
  EXPECT_FALSE(verdict.culprits.front().fails);
}

TEST(ANicThatIsSevenPercentSlow, FailsIfAllToAllIsSlower) {
  const Verdict verdict = with_slow_nic(0.9);
  EXPECT_EQ(finding_of_all_to_all(verdict).status, Status::fail);
  ASSERT_FALSE(verdict.culprits.empty());
  EXPECT_EQ(verdict.culprits.front().causes, std::vector{Cause::slow_nic});
  EXPECT_TRUE(verdict.culprits.front().fails);
}

// Two of eight hosts have another VBIOS, and one of them has two GPUs with clocks that are 10 % higher.
TEST(TwoHostsOfAPopulation, AreComparedByTheirClocksWithAllHosts) {
  EXPECT_EQ(judge_fleet(fleet_of("mixed", 8, "none", 5030046), shipped_profiles()).state, State::pass);
}

TEST(ALink, IsNamedNextToTheSlowGpuAtItsEnd) {
  const int fleets = testing_support::is_nightly() ? 60 : 5;
  for (const bool begins : {true, false}) {
    for (int i = 0; i < fleets; ++i) {
      Order order;
      order.limits = &shipped_profiles();
      order.noise = read_noise(source / "thresholds/rehearsal/noise/calm.yaml");
      order.seed = static_cast<std::uint64_t>(first_seed + i);
      order.faults = parse_faults("gpu:0.05+one_way:0.5");
      order.faults[0].local = (i + (begins ? 0 : 1)) % order.shape.gpus;
      order.faults[1].local = i % order.shape.gpus;
      const Fleet fleet(order);
      const Outcome outcome = outcome_of(fleet, judge_fleet(fleet, shipped_profiles()));
      EXPECT_TRUE(outcome.named) << "seed " << order.seed << (begins ? ": begins" : ": ends") << " at the slow GPU";
      EXPECT_FALSE(outcome.innocent) << "seed " << order.seed;
    }
  }
}

}  // namespace
}  // namespace shakedown::rehearsal::gates_test
