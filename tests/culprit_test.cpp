// From measurements to causes: which GPU, link, node, rank or setting is at fault.
#include "thresholds/culprit.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/results_builder.hpp"

namespace shakedown {
namespace {

using testing_support::profile;
using testing_support::ResultsBuilder;
using testing_support::Values;

const std::string bf16 = "gemm/dtype:bf16/m:8192/n:8192/k:8192";
const std::string hbm = "hbm/op:copy/engine:sm/bytes:4294967296";
const std::string sum = "allreduce/dtype:f32/bytes:1073741824";

/// A run of one or more hosts with `per_host` GPUs, which a test makes ill before it is judged.
struct Measured {
  explicit Measured(int ranks = 8, int hosts = 1) : builder(ranks, hosts), n(static_cast<std::size_t>(ranks)) {
    per_host = ranks / hosts;
    gemm.assign(n, 454);
    clock.assign(n, 1.465);
    memory.assign(n, 4180);
    arrival.assign(n, 0.2);
    for (std::size_t i = 0; i < n; ++i) {
      gemm[i] += 0.2 * static_cast<double>(i % 5);
      memory[i] += static_cast<double>(i % 5);
    }
    copies.assign(n, std::vector<double>(n, 396));
  }

  void slow_copies(int rank, double factor, bool out = true, bool in = true) {
    for (std::size_t other = 0; other < n; ++other) {
      if (out) copies[static_cast<std::size_t>(rank)][other] *= factor;
      if (in) copies[other][static_cast<std::size_t>(rank)] *= factor;
    }
  }

  static Values list(const std::vector<double>& values) { return {values.begin(), values.end()}; }

  Results results() {
    std::vector<double> tflops, mhz;
    for (std::size_t i = 0; i < n; ++i) {
      tflops.push_back(gemm[i] * clock[i]);
      mhz.push_back(1000 * clock[i]);
    }
    builder.add(bf16, "tflops", *std::min_element(tflops.begin(), tflops.end()), list(tflops));
    if (telemetry) builder.by_rank("tflops_per_ghz", list(gemm)).by_rank("sm_mhz", list(mhz));
    builder.by_rank("arrival_us", list(arrival));
    builder.add(hbm, "hbm_gbps", 4180, list(memory)).by_rank("arrival_us", list(arrival));
    for (int src = 0; src < per_host; ++src) {
      for (int dst = 0; dst < per_host; ++dst) {
        if (src == dst) continue;
        Values values(n);
        for (std::size_t rank = 0; rank < n; ++rank) {
          const int local = static_cast<int>(rank) % per_host, first = static_cast<int>(rank) - local;
          if (local == dst) values[rank] = copies[static_cast<std::size_t>(first + src)][rank];
        }
        builder.add(
            "p2p/op:write/engine:ce/src:" + std::to_string(src) + "/dst:" + std::to_string(dst) + "/bytes:1073741824",
            "copy_gbps", 396, values);
      }
    }
    builder.add(sum, "busbw_gbps", busbw, {}, {{"latency_us", 4500}}).by_rank("arrival_us", list(arrival));
    if (!seconds.empty()) builder.by_rank("seconds", list(seconds));
    Results read = builder.results();
    for (Row& row : read.rows) {
      if (family_of(row.key) == "gemm" && !throttle.empty()) row.text_by_rank["throttle"] = throttle;
    }
    return read;
  }

  std::vector<Diagnosis> culprits() {
    auto all = judge({results()}, {}, {}).culprits;
    return all;
  }

  ResultsBuilder builder;
  std::size_t n;
  int per_host;
  bool telemetry = true;
  double busbw = 360;
  std::vector<double> gemm, clock, memory, arrival, seconds;
  std::vector<std::vector<double>> copies;  // [source][destination], global ranks
  std::vector<std::optional<std::string>> throttle;
};

Diagnosis only(const std::vector<Diagnosis>& culprits) {
  EXPECT_EQ(culprits.size(), 1u);
  for (const Diagnosis& d : culprits) SCOPED_TRACE(causes_text(d) + ": " + d.detail);
  return culprits.empty() ? Diagnosis{} : culprits.front();
}

TEST(Culprits, AreNoneInAHealthyRun) { EXPECT_TRUE(Measured().culprits().empty()); }

TEST(Culprits, NameASlowGpuWithAllThatIdentifiesIt) {
  Measured run;
  run.builder.context.ranks[3].serial = "1650123";
  run.gemm[3] *= 0.94;
  run.memory[3] *= 0.94;
  run.slow_copies(3, 0.94);
  const Diagnosis d = only(run.culprits());
  EXPECT_EQ(causes_text(d), "slow GPU");
  EXPECT_TRUE(d.fails);
  ASSERT_EQ(d.places.size(), 1u);
  EXPECT_EQ(d.places[0].rank, 3);
  EXPECT_EQ(d.places[0].host, "node0");
  EXPECT_EQ(d.places[0].local_rank, 3);
  EXPECT_EQ(d.places[0].uuid, "GPU-1003");
  EXPECT_EQ(d.places[0].serial, "1650123");
  EXPECT_EQ(d.places[0].pci, "0000:13:00.0");
  EXPECT_NEAR(*d.percent, 6, 0.3);
  EXPECT_GT(*d.mads, 5);
  EXPECT_EQ(d.detail, "slow: GEMM, HBM and copies to and from it; at a normal clock");
  EXPECT_EQ(d.telemetry, "1465 MHz (peers 1465)");
  EXPECT_EQ(d.next, "ssh node0 nvidia-smi -q -i GPU-1003 -d PERFORMANCE,CLOCK,POWER,ECC,PIDS");
  EXPECT_EQ(d.evidence_count, 16u) << "GEMM, HBM, and 14 copies";
}

TEST(Culprits, SayWhatOfASlowGpuIsHealthy) {
  Measured run;
  run.memory[6] *= 0.95;
  EXPECT_EQ(only(run.culprits()).detail, "slow: HBM; not slow: GEMM and copies to and from it; at a normal clock");
}

TEST(Culprits, NameASlowLinkByBothEnds) {
  Measured run;
  run.copies[1][3] *= 0.8;
  const Diagnosis d = only(run.culprits());
  EXPECT_EQ(causes_text(d), "slow link");
  ASSERT_EQ(d.places.size(), 2u);
  EXPECT_EQ(d.places[0].rank, 1) << "the source";
  EXPECT_EQ(d.places[1].rank, 3);
  EXPECT_EQ(d.detail, "copies from local GPU 1 to 3 are slow, other copies of both are not");
  EXPECT_EQ(d.next, "ssh node0 nvidia-smi nvlink -e -i GPU-1001");
}

TEST(Culprits, NameALinkThatIsSlowBothWaysOnce) {
  Measured run;
  run.copies[1][3] *= 0.8;
  run.copies[3][1] *= 0.8;
  EXPECT_EQ(only(run.culprits()).detail, "copies between the two are slow in both directions");
}

TEST(Culprits, TellTheLinksOfAGpuFromTheGpu) {
  Measured run;
  run.slow_copies(5, 0.9);
  const Diagnosis both = only(run.culprits());
  EXPECT_EQ(causes_text(both), "slow link or slow GPU");
  EXPECT_EQ(both.places[0].rank, 5);
  EXPECT_EQ(both.detail, "every copy to it and from it is slow, its GEMM and HBM are not: its ports");
  Measured out;
  out.slow_copies(5, 0.9, true, false);
  const Diagnosis one = only(out.culprits());
  EXPECT_EQ(one.places[0].rank, 5);
  EXPECT_EQ(one.detail, "every copy out of it is slow, copies into it are not");
}

TEST(Culprits, NameBothCausesWhereTwoGpusCannotTellThemApart) {
  Measured run(2);
  run.builder.add("p2p/op:write/engine:sm/shift:1/bytes:1073741824", "copy_gbps", 300, {300, 300});

  const auto rules = profile(
      "  - {benchmark: \"p2p/op:write/engine:ce/src:*/dst:*/bytes:1073741824\", metric: copy_gbps, every: rank, min: "
      "366, source: s}\n");
  run.copies[0][1] = run.copies[1][0] = 300;
  const auto culprits = judge({run.results()}, rules, {}).culprits;
  ASSERT_FALSE(culprits.empty());
  EXPECT_EQ(causes_text(culprits[0]), "slow link or slow GPU");
  EXPECT_EQ(culprits[0].places.size(), 2u);
}

TEST(Culprits, NameANodeWhoseRanksAreAllSlow) {
  Measured run(32, 4);
  for (std::size_t rank = 8; rank < 16; ++rank) {
    run.gemm[rank] *= 0.92;
    run.memory[rank] *= 0.92;
  }
  const Diagnosis d = only(run.culprits());
  EXPECT_EQ(causes_text(d), "slow node");
  ASSERT_EQ(d.places.size(), 1u);
  EXPECT_EQ(text(d.places[0]), "node1");
  EXPECT_EQ(d.next, "mpirun -np 8 --host node1:8 build/bench/bench_gemm");
}

TEST(Culprits, TellANodeFromTheNetworkByItsOwnAllReduce) {
  const std::string own = sum + "/scope:node";
  Measured slow(32, 4);
  Values inside(32, 360.0);
  for (std::size_t rank = 16; rank < 24; ++rank) inside[rank] = 300;
  slow.builder.add(own, "busbw_gbps", 300, inside);
  const Diagnosis node = only(slow.culprits());
  EXPECT_EQ(causes_text(node), "slow node or configuration");
  EXPECT_EQ(node.places[0].host, "node2");
  EXPECT_NE(node.detail.find("the node, not the network"), std::string::npos) << node.detail;

  Measured network(32, 4);
  network.busbw = 100;
  network.builder.add(own, "busbw_gbps", 360);
  const auto rules =
      profile("  - {benchmark: \"" + sum + "\", metric: busbw_gbps, every: run, min: 300, hosts: 4, source: s}\n",
              "unjudged: [gemm, hbm, p2p]\n");
  const Diagnosis fabric = only(judge({network.results()}, rules, {}).culprits);
  EXPECT_EQ(causes_text(fabric), "configuration or slow link");
  EXPECT_NE(fabric.detail.find("each host alone is fine, so the network between them"), std::string::npos)
      << fabric.detail;
}

TEST(Culprits, BlameTheConfigurationForASlowAllReduceOverHealthyLinks) {
  Measured run;
  run.busbw = 30;
  run.builder.context.environment["NCCL_P2P_DISABLE"] = "1";
  const Diagnosis d = only(run.culprits());
  EXPECT_EQ(causes_text(d), "configuration");
  EXPECT_TRUE(d.places.empty());
  EXPECT_NE(d.detail.find("NCCL_P2P_DISABLE=1"), std::string::npos) << d.detail;
  EXPECT_EQ(d.evidence.at(0).by, Judgement::crosscheck);
  EXPECT_EQ(d.next.rfind("NCCL_DEBUG=INFO", 0), 0u);
}

TEST(Culprits, DoNotBlameTheConfigurationForWhatASlowLinkExplains) {
  Measured run;
  run.copies[1][3] *= 0.5;
  run.busbw = 190;
  const Diagnosis d = only(run.culprits());
  EXPECT_EQ(causes_text(d), "slow link");
  EXPECT_NE(d.detail.find(sum + " is slow as well"), std::string::npos) << d.detail;
}

TEST(Culprits, ExplainASlowGemmByItsClock) {
  Measured run;
  run.clock[2] *= 0.7;
  const Diagnosis d = only(run.culprits());
  EXPECT_EQ(causes_text(d), "power or heat");
  EXPECT_EQ(d.places[0].rank, 2);
  EXPECT_EQ(d.telemetry, "1026 MHz (peers 1465)");
}

TEST(Culprits, ExplainALowClockByHeatAndFailIt) {
  Measured run;
  run.clock[2] *= 0.88;
  run.throttle.assign(8, "sw_power_cap 40 %");
  run.throttle[2] = "hw_thermal_slowdown 60 %";
  const Verdict verdict = judge({run.results()}, {}, {});
  const Diagnosis d = only(verdict.culprits);
  EXPECT_EQ(causes_text(d), "power or heat");
  EXPECT_TRUE(d.fails);
  EXPECT_EQ(d.telemetry, "1289 MHz (peers 1465); throttled: hw_thermal_slowdown 60 %");
  EXPECT_EQ(verdict.state, State::fail) << "no measurement is below a limit, the clock is";
}

TEST(Culprits, SayThatAChipIsSlowAndFailNothing) {
  Measured run;
  run.clock[2] *= 0.88;
  run.throttle.assign(8, "sw_power_cap 40 %");
  const Verdict verdict = judge({run.results()}, {}, {});
  const Diagnosis d = only(verdict.culprits);
  EXPECT_EQ(causes_text(d), "slow silicon");
  EXPECT_FALSE(d.fails);
  EXPECT_EQ(verdict.state, State::no_reference);
}

TEST(Culprits, NameAllCausesWhereNoClockWasRecorded) {
  Measured run;
  run.telemetry = false;
  run.clock[2] *= 0.7;
  EXPECT_EQ(causes_text(only(run.culprits())), "slow GPU or power or heat");
  Measured little;
  little.telemetry = false;
  little.clock[2] *= 0.88;
  EXPECT_EQ(causes_text(only(little.culprits())), "slow silicon, power or heat or slow GPU");
}

TEST(Culprits, NameTheRankThatComesLate) {
  Measured run;
  run.arrival[4] = 900;
  const Diagnosis d = only(run.culprits());
  EXPECT_EQ(causes_text(d), "late rank");
  EXPECT_EQ(d.places[0].rank, 4);
  EXPECT_FALSE(d.fails) << "no collective is slow";
  Measured slow;
  slow.arrival[4] = 900;
  slow.busbw = 100;
  const Diagnosis culprit = only(slow.culprits());
  EXPECT_EQ(causes_text(culprit), "late rank") << "not the configuration";
  EXPECT_TRUE(culprit.fails);
}

TEST(Culprits, BlameNoSingleRankForALimitThatMostMiss) {
  Measured run;
  const auto rules = profile("  - {benchmark: \"" + bf16 + "\", metric: tflops, every: rank, min: 800, source: s}\n",
                             "unjudged: [hbm, p2p, allreduce]\n");
  const Diagnosis d = only(judge({run.results()}, rules, {}).culprits);
  EXPECT_EQ(causes_text(d), "configuration or power or heat");
  EXPECT_TRUE(d.places.empty());
  EXPECT_EQ(d.place_count, 8u);
}

TEST(Culprits, TakeTheEvidenceOfRulesToo) {
  Measured run;
  run.memory[6] = 4100;  // 2 %: no outlier
  const auto rules = profile("  - {benchmark: \"" + hbm + "\", metric: hbm_gbps, every: rank, min: 4150, source: s}\n",
                             "unjudged: [gemm, p2p, allreduce]\n");
  const Diagnosis d = only(judge({run.results()}, rules, {}).culprits);
  EXPECT_EQ(causes_text(d), "slow GPU");
  EXPECT_EQ(d.places[0].rank, 6);
  EXPECT_EQ(d.evidence.at(0).by, Judgement::rule);
}

TEST(Culprits, NameTheRankWhoseDataWereWrong) {
  Measured run;
  run.builder.add_error("gemm/dtype:f32/m:8/n:8/k:8",
                        "wrong data: rank 5 (node0 GPU-1005): 3 of 64 comparisons failed");
  const Diagnosis d = only(run.culprits());
  EXPECT_EQ(causes_text(d), "wrong data");
  EXPECT_EQ(d.places[0].rank, 5);
}

TEST(Culprits, AreTwoWhereTwoThingsAreWrong) {
  Measured run;
  run.gemm[3] *= 0.94;
  run.memory[3] *= 0.94;
  run.copies[1][6] *= 0.8;
  const auto culprits = run.culprits();
  ASSERT_EQ(culprits.size(), 2u);
  EXPECT_EQ(causes_text(culprits[0]), "slow GPU");
  EXPECT_EQ(causes_text(culprits[1]), "slow link");
}

}  // namespace
}  // namespace shakedown
