// The faults that are planted in generated clusters, and how often the judge got them right.
#pragma once

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/thresholds/simulate.hpp"
#include "thresholds/judge.hpp"
#include "thresholds/profile.hpp"

namespace shakedown::simulation {

struct Scenario {
  std::string name;
  std::vector<std::pair<Fault::Kind, double>> faults;
  double noise = 1, drift = 0;
  bool needs_hosts = false;  // one host has nothing to be compared with
  bool clocks = true;
};

/// Of runs that are judged with a profile: what its rules may add to the peers, and must not say of others.
inline std::vector<Scenario> scenarios_with_profile() {
  using Kind = Fault::Kind;
  return {{"nothing", {}},
          {"GPU 5 % slow", {{Kind::slow_gpu, 0.05}}},
          {"two GPUs 5 % slow", {{Kind::slow_gpu, 0.05}, {Kind::slow_gpu, 0.05}}},
          {"GPU 20 % slow in GEMM only", {{Kind::slow_compute, 0.20}}},
          {"link at half one way", {{Kind::slow_link, 0.5}}},
          {"a GPU's ports at half", {{Kind::slow_ports, 0.5}}},
          {"GPU 5 % slow and another link at half", {{Kind::slow_gpu, 0.05}, {Kind::slow_link, 0.5}}},
          {"GPU 5 % slow and a late rank", {{Kind::slow_gpu, 0.05}, {Kind::late_rank, 0}}}};
}

inline std::vector<Scenario> scenarios() {
  using Kind = Fault::Kind;
  return {{"nothing", {}},
          {"GPU 3 % slow", {{Kind::slow_gpu, 0.03}}},
          {"GPU 5 % slow", {{Kind::slow_gpu, 0.05}}},
          {"GPU 10 % slow", {{Kind::slow_gpu, 0.10}}},
          {"GPU 5 % slow in GEMM only", {{Kind::slow_compute, 0.05}}},
          {"GPU 5 % slow in GEMM only, no clocks recorded", {{Kind::slow_compute, 0.05}}, 1, 0, false, false},
          {"GPU 5 % slow in HBM only", {{Kind::slow_memory, 0.05}}},
          {"link 20 % slow one way", {{Kind::slow_link, 0.20}}},
          {"node 8 % slow", {{Kind::slow_node, 0.08}}, 1, 0, true},
          {"GPU 5 % slow and another link 20 %", {{Kind::slow_gpu, 0.05}, {Kind::slow_link, 0.20}}},
          {"GPU's clock 12 % low by heat", {{Kind::heat, 0.12}}},
          {"rank 2 ms late", {{Kind::late_rank, 0}}},
          {"AllReduce at half, links healthy", {{Kind::slow_allreduce, 0.5}}},
          {"everything 2 % slower (for regression)", {}, 1, 0.02},
          {"nothing, noise times 3", {}, 3},
          {"GPU 10 % slow, noise times 3", {{Kind::slow_gpu, 0.10}}, 3}};
}

struct Tally {
  int runs = 0, detected = 0, named = 0, false_alarms = 0;
  double percent(int n) const { return runs == 0 ? 0 : 100.0 * n / runs; }
};

inline std::string percent_text(double percent) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", percent);
  return text.data();
}

inline Plan plan_of(const Scenario& scenario, int gpus, std::uint64_t seed) {
  Plan plan;
  plan.gpus = gpus;
  plan.noise = scenario.noise;
  plan.drift = scenario.drift;
  plan.clocks = scenario.clocks;
  plan.seed = seed;
  for (const auto& [kind, share] : scenario.faults) {
    Fault fault = planted(kind, share, plan);
    // A second fault elsewhere: a link of the slow GPU would be explained by it.
    const auto meets = [&](const Fault& f) { return f.rank == plan.faults[0].rank || f.to == plan.faults[0].rank; };
    for (int attempt = 1; !plan.faults.empty() && meets(fault); ++attempt) fault = planted(kind, share, plan, attempt);
    plan.faults.push_back(fault);
  }
  return plan;
}

/// With a profile: of H200, whose runs have more kinds of rows.
inline Tally run(const Scenario& scenario, int gpus, int seeds, std::uint64_t first_seed,
                 const std::vector<Profile>& profiles = {}) {
  Tally tally;
  for (int i = 0; i < seeds; ++i) {
    Plan plan = plan_of(scenario, gpus, first_seed + static_cast<std::uint64_t>(i));
    if (!profiles.empty()) {
      plan.pairs_and_step = true;
      plan.device = "NVIDIA H200";
    }
    const Outcome o = outcome(plan, judge(cluster(plan), profiles, {}));
    ++tally.runs;
    if (o.detected) ++tally.detected;
    if (o.named) ++tally.named;
    if (o.wrong > 0) ++tally.false_alarms;
  }
  return tally;
}

}  // namespace shakedown::simulation
