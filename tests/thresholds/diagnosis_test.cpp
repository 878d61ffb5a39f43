// Tests the way from measurements to causes: which GPU, link, node, rank or setting is at fault.
#include "thresholds/findings/diagnosis.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/headline.hpp"
#include "thresholds/judge/judge.hpp"

namespace shakedown::diagnosis_test {
namespace {

using testing_support::profile;
using testing_support::ResultsBuilder;
using testing_support::Values;

const std::string bf16 = "gemm/dtype:bf16/m:8192/n:8192/k:8192";
const std::string hbm = "hbm/op:copy/engine:sm/bytes:4294967296";
const std::string sum = "allreduce/dtype:f32/bytes:1073741824";

/// A run on one or more hosts with `per_host` GPUs. A test adds faults before it is judged.
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

  static Values list(const std::vector<double>& values) {
    return std::vector<OptionalDouble>(values.begin(), values.end());
  }

  static double least(const Values& values) {
    double worst = HUGE_VAL;
    for (const auto& value : values) worst = std::min(worst, value.value_or(worst));
    return worst;
  }

  Results results() {
    std::vector<double> tflops, mhz;
    for (std::size_t i = 0; i < n; ++i) {
      tflops.push_back(gemm[i] * clock[i]);
      mhz.push_back(1000 * clock[i]);
    }
    builder.add(bf16, "tflops", *std::min_element(tflops.begin(), tflops.end()), list(tflops));
    if (telemetry) builder.by_rank("tflops_per_ghz", list(gemm)).by_rank("sm_mhz", list(mhz));
    // Repeats unconfirmed values three times, as the programs do.
    builder.by_rank("arrival_us", list(arrival)).repeated();
    builder.add(hbm, "hbm_gb_per_s", *std::min_element(memory.begin(), memory.end()), list(memory))
        .by_rank("arrival_us", list(arrival))
        .repeated();
    for (int src = 0; src < per_host && pairs; ++src) {
      for (int dst = 0; dst < per_host; ++dst) {
        if (src == dst) continue;
        Values values(n);
        for (std::size_t rank = 0; rank < n; ++rank) {
          const int local = static_cast<int>(rank) % per_host, first = static_cast<int>(rank) - local;
          if (local == dst) values[rank] = copies[static_cast<std::size_t>(first + src)][rank];
        }
        builder.add(
            "p2p/op:write/engine:ce/src:" + std::to_string(src) + "/dst:" + std::to_string(dst) + "/bytes:1073741824",
            "copy_gb_per_s", least(values), values);
        builder.repeated();
      }
    }
    if (all_copies) add_more_copies();
    builder.add(sum, "busbw_gb_per_s", busbw, {}, {{"latency_us", 4500}}).by_rank("arrival_us", list(arrival));
    if (!seconds.empty()) builder.seconds(list(seconds));
    builder.repeated();
    Results read = builder.results();
    for (Row& row : read.rows) {
      for (std::size_t rank = 0; rank < throttle.size() && family_of(row.key) == "gemm"; ++rank) {
        for (const auto& [reason, part] : throttle[rank]) {
          row.throttle[reason].resize(n);
          row.throttle[reason][rank] = part;
        }
      }
    }
    return read;
  }

  /// Both directions of each pair, their sum at both ends, and all GPUs at once, each from the GPU `shift` before it.
  void add_more_copies() {
    for (int step = 1; step < per_host; ++step) {
      Values shifted(n);
      for (std::size_t rank = 0; rank < n; ++rank) {
        const int local = static_cast<int>(rank) % per_host, first = static_cast<int>(rank) - local;
        shifted[rank] = copies[static_cast<std::size_t>(first + (local - step + per_host) % per_host)][rank];
      }
      builder
          .add("p2p/op:write/engine:ce/shift:" + std::to_string(step) + "/bytes:1073741824", "copy_gb_per_s",
               least(shifted), shifted)
          .repeated();
      for (int src = 0; src + step < per_host && pairs; ++src) {
        Values sums(n);
        for (std::size_t first = 0; first < n; first += static_cast<std::size_t>(per_host)) {
          const std::size_t a = first + static_cast<std::size_t>(src), b = a + static_cast<std::size_t>(step);
          sums[a] = sums[b] = 2 * std::min(copies[a][b], copies[b][a]);
        }
        builder
            .add("p2p/op:write/engine:ce/dir:both/src:" + std::to_string(src) + "/dst:" + std::to_string(src + step) +
                     "/bytes:1073741824",
                 "copy_gb_per_s", least(sums), sums)
            .repeated();
      }
    }
  }

  std::vector<Diagnosis> culprits(const std::vector<Profile>& profiles = {}) {
    return judge({results()}, profiles, {}).culprits;
  }

  ResultsBuilder builder;
  std::size_t n;
  int per_host;
  bool telemetry = true, all_copies = false, pairs = true;
  double busbw = 360;
  std::vector<double> gemm, clock, memory, arrival, seconds;
  std::vector<std::vector<double>> copies;  // [source][destination], global ranks
  std::vector<Throttle> throttle;           // of each rank in GEMM
};

/// Floors for the copies of pairs, for the sums of both directions, and for all GPUs at once.
std::vector<Profile> copy_rules() {
  const auto rule = [](const std::string& copies, int min) {
    return "  - {benchmark: \"p2p/op:write/engine:ce/" + copies +
           "/bytes:1073741824\", metric: copy_gb_per_s, every: rank, hosts: [1, 100], min: " + std::to_string(min) +
           ", source: s}\n";
  };
  std::string rules = rule("src:*/dst:*", 366) + rule("dir:both/src:*/dst:*", 728);
  for (int step = 1; step < 4; ++step) rules += rule("shift:" + std::to_string(step), 368);
  return profile(rules, "unjudged: [gemm, hbm, allreduce, lora_step]\n");
}

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
  EXPECT_EQ(d.detail, "GEMM, HBM and copies to and from the GPU are slow; the clock is normal");
  EXPECT_EQ(d.telemetry, "1465 MHz (peers 1465) in gemm");
  EXPECT_EQ(d.next, "ssh node0 nvidia-smi -q -i GPU-1003 -d PERFORMANCE,CLOCK,POWER,ECC,PIDS");
  EXPECT_EQ(d.evidence_count, 16u) << "GEMM, HBM, and 14 copies";
}

TEST(Culprits, NameACoreAndNoGpuOnTheHostBackend) {
  Measured run;
  run.builder.context.backend = Backend::host;
  run.memory[3] *= 0.9;
  const auto culprits = run.culprits();
  ASSERT_FALSE(culprits.empty());
  EXPECT_EQ(causes_text(culprits.front()), "busy core");
  EXPECT_TRUE(culprits.front().detail.starts_with("memory "));
  EXPECT_EQ(culprits.front().next, "ssh node0 ps -eLo psr,pcpu,pid,comm --sort=-pcpu | head -20");
}

TEST(Culprits, LetNoNameIntoTheCommandThatComesNext) {
  for (const auto& [host, uuid, next] : {std::tuple("node0;touch x", "GPU-1003", "ssh HOST nvidia-smi -q -i GPU-1003 "),
                                         {"-oProxyCommand=reboot", "", "ssh HOST nvidia-smi -q -i 0000:13:00.0 "},
                                         {"node0", "GPU-3;reboot", "ssh node0 nvidia-smi -q -i 0000:13:00.0 "}}) {
    Measured run;
    for (auto& rank : run.builder.context.ranks) rank.host = host;
    for (auto& known : run.builder.context.inventory) known.host = host;
    run.builder.context.ranks[3].uuid = uuid;
    run.memory[3] *= 0.94;
    EXPECT_EQ(only(run.culprits()).next.rfind(next, 0), 0u) << only(run.culprits()).next;
  }
}

TEST(Culprits, SayWhatOfASlowGpuIsHealthy) {
  Measured run;
  run.memory[6] *= 0.95;
  EXPECT_TRUE(only(run.culprits()).detail.starts_with("HBM "));
}

TEST(Culprits, NameASlowLinkByBothEnds) {
  Measured run;
  run.copies[1][3] *= 0.8;
  const Diagnosis d = only(run.culprits());
  EXPECT_EQ(causes_text(d), "slow link");
  ASSERT_EQ(d.places.size(), 2u);
  EXPECT_EQ(d.places[0].rank, 1) << "the source";
  EXPECT_EQ(d.places[1].rank, 3);
  EXPECT_EQ(d.detail, "copies from local GPU 1 to 3 are slow, other copies of both are normal");
  EXPECT_EQ(d.next, "ssh node0 nvidia-smi nvlink -e -i GPU-1001");
}

TEST(Culprits, NameALinkAndTheLinksOfAGpuByShiftsAlone) {
  Measured run;
  run.all_copies = true;
  run.pairs = false;
  EXPECT_TRUE(run.culprits().empty());
  Measured link = run;
  link.copies[1][3] *= 0.8;
  const Diagnosis slow = only(link.culprits());
  EXPECT_EQ(causes_text(slow), "slow link");
  ASSERT_EQ(slow.places.size(), 2u);
  EXPECT_EQ(slow.places[0].rank, 1);
  EXPECT_EQ(slow.places[1].rank, 3);
  Measured ports = run;
  ports.slow_copies(5, 0.9);
  EXPECT_EQ(only(ports.culprits()).causes, (std::vector{Cause::slow_link, Cause::slow_gpu}));
  EXPECT_EQ(only(ports.culprits()).places.at(0).rank, 5);
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
  EXPECT_EQ(both.causes, (std::vector{Cause::slow_link, Cause::slow_gpu}));
  EXPECT_EQ(both.places[0].rank, 5);
  EXPECT_EQ(both.detail,
            "all copies to and from the GPU are slow, but GEMM and HBM are normal; the ports of the GPU are suspected");
  Measured out;
  out.slow_copies(5, 0.9, true, false);
  const Diagnosis one = only(out.culprits());
  EXPECT_EQ(one.places[0].rank, 5);
  EXPECT_EQ(one.detail, "all copies out of the GPU are slow, copies into the GPU are normal");
}

TEST(Culprits, NameBothCausesWhereTwoGpusCannotTellThemApart) {
  Measured run(2);
  run.builder.add("p2p/op:write/engine:sm/shift:1/bytes:1073741824", "copy_gb_per_s", 300, {300, 300});

  const auto rules = profile(
      "  - {benchmark: \"p2p/op:write/engine:ce/src:*/dst:*/bytes:1073741824\", metric: copy_gb_per_s, every: rank, "
      "min: "
      "366, source: s}\n");
  run.copies[0][1] = run.copies[1][0] = 300;
  const auto culprits = judge({run.results()}, rules, {}).culprits;
  ASSERT_FALSE(culprits.empty());
  EXPECT_EQ(culprits[0].causes, (std::vector{Cause::slow_link, Cause::slow_gpu}));
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
  slow.builder.add(own, "busbw_gb_per_s", 300, inside).repeated();
  const Diagnosis node = only(slow.culprits());
  EXPECT_EQ(node.causes, (std::vector{Cause::slow_node, Cause::configuration}));
  EXPECT_EQ(node.places[0].host, "node2");
  EXPECT_NE(node.detail.find("the node is at fault and not the network"), std::string::npos) << node.detail;

  Measured network(32, 4);
  network.busbw = 100;
  network.builder.add(own, "busbw_gb_per_s", 360);
  const auto rules =
      profile("  - {benchmark: \"" + sum + "\", metric: busbw_gb_per_s, every: run, min: 300, hosts: 4, source: s}\n",
              "unjudged: [gemm, hbm, p2p]\n");
  const Diagnosis fabric = only(judge({network.results()}, rules, {}).culprits);
  EXPECT_EQ(fabric.causes, (std::vector{Cause::configuration, Cause::slow_link}));
  EXPECT_NE(fabric.detail.find("the network"), std::string::npos) << fabric.detail;
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
  EXPECT_NE(d.detail.find("AllReduce f32, 1 GiB is slow as a consequence"), std::string::npos) << d.detail;
}

// Rank 1 of two next to a program that takes 90 % of its GPU, as measured on H200.
TEST(Culprits, BlameAGpuForWhatItsOwnKernelsCopySlowly) {
  Measured run(2);
  run.gemm[1] *= 0.7;
  run.memory[1] *= 0.74;
  run.builder.add("p2p/op:latency/engine:sm/shift:1/bytes:2097152", "latency_us", 1.0565, {0.83584, 1.0565}).repeated();
  const Diagnosis d = only(run.culprits());
  EXPECT_EQ(causes_text(d), "slow GPU");
  EXPECT_EQ(d.places.at(0).rank, 1);
  EXPECT_TRUE(d.detail.starts_with("GEMM, HBM ")) << d.detail;
}

TEST(Culprits, BlameALinkWhereTheGpusAtItsEndsAreAsFastAsOthers) {
  Measured run(2);
  run.builder.add("p2p/op:latency/engine:sm/shift:1/bytes:2097152", "latency_us", 1.0565, {0.83584, 1.0565}).repeated();
  EXPECT_EQ(causes_text(only(run.culprits())), "slow link");
}

TEST(Culprits, BlameAGpuThatSomebodyElseHasInTurnsForCollectivesThatAreSlowerByFar) {
  Measured run;
  run.gemm[5] *= 0.7;
  run.busbw = 30;
  const Diagnosis d = only(run.culprits());
  EXPECT_EQ(causes_text(d), "slow GPU");
  EXPECT_NE(d.detail.find("AllReduce f32, 1 GiB "), std::string::npos) << d.detail;
}

TEST(Culprits, BlameTheGpuThatAnotherProgramHadWhereOnlyCollectivesAreSlow) {
  Measured run;
  run.busbw = 30;
  run.builder.context.ranks[5].processes = {{2721, "gpu_load", std::nullopt}};
  const Diagnosis d = only(run.culprits());
  EXPECT_EQ(causes_text(d), "slow GPU");
  ASSERT_EQ(d.places.size(), 1U);
  EXPECT_EQ(d.places[0].rank, 5);
  EXPECT_EQ(d.detail, "another program used this GPU when the run began, and all ranks wait for the GPU");
  EXPECT_EQ(d.next, "ssh node0 nvidia-smi -q -i GPU-1005 -d PIDS");
}

TEST(Culprits, ExplainASlowGemmByItsClock) {
  Measured run;
  run.clock[2] *= 0.7;
  const Diagnosis d = only(run.culprits());
  EXPECT_EQ(d.causes, std::vector{Cause::power_or_heat});
  EXPECT_EQ(d.places[0].rank, 2);
  EXPECT_EQ(d.telemetry, "1026 MHz (peers 1465) in gemm");
}

TEST(Culprits, ExplainALowClockByHeatAndFailIt) {
  Measured run;
  run.clock[2] *= 0.88;
  run.throttle.assign(8, {{"sw_power_cap", 0.4}});
  run.throttle[2] = {{"hw_thermal", 0.6}};
  const Verdict verdict = judge({run.results()}, {}, {});
  const Diagnosis d = only(verdict.culprits);
  EXPECT_EQ(d.causes, std::vector{Cause::power_or_heat});
  EXPECT_TRUE(d.fails);
  EXPECT_EQ(d.telemetry, "1289 MHz (peers 1465) in gemm; throttled in gemm: hw_thermal 60 %");
  EXPECT_TRUE(d.heat);
  EXPECT_EQ(verdict.state, State::fail) << "no measurement is below a limit, the clock is";
}

TEST(Culprits, SayEachReasonOfALowClockOnce) {
  Measured run;
  run.clock[2] *= 0.88;
  run.throttle.resize(8);
  run.throttle[2] = {{"hw_thermal", 0.6}};
  Results results = run.results();
  for (const double part : {0.4, 0.7}) {
    Row again =
        *std::find_if(results.rows.begin(), results.rows.end(), [](const Row& r) { return !r.throttle.empty(); });
    again.throttle["hw_thermal"][2] = part;
    results.rows.push_back(std::move(again));
  }
  EXPECT_TRUE(only(judge({results}, {}, {}).culprits).telemetry.ends_with(": hw_thermal 70 %"));
}

TEST(Culprits, SayThatAChipIsSlowAndFailNothing) {
  Measured run;
  run.clock[2] *= 0.88;
  run.throttle.assign(8, {{"sw_power_cap", 0.4}});
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
  EXPECT_EQ(only(run.culprits()).causes, (std::vector{Cause::slow_gpu, Cause::power_or_heat}));
  Measured little;
  little.telemetry = false;
  little.clock[2] *= 0.88;
  EXPECT_EQ(only(little.culprits()).causes, (std::vector{Cause::slow_silicon, Cause::power_or_heat, Cause::slow_gpu}));
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
  EXPECT_EQ(d.causes, (std::vector{Cause::configuration, Cause::power_or_heat}));
  EXPECT_TRUE(d.places.empty());
  EXPECT_EQ(d.place_count, 8u);
}

TEST(Culprits, TakeTheEvidenceOfRulesToo) {
  Measured run;
  run.memory[6] = 4100;  // 2 %: no outlier
  const auto rules =
      profile("  - {benchmark: \"" + hbm + "\", metric: hbm_gb_per_s, every: rank, min: 4150, source: s}\n",
              "unjudged: [gemm, p2p, allreduce]\n");
  const Diagnosis d = only(judge({run.results()}, rules, {}).culprits);
  EXPECT_EQ(causes_text(d), "slow GPU");
  EXPECT_EQ(d.places[0].rank, 6);
  EXPECT_EQ(d.evidence.at(0).by, Judgement::rule);
}

// Of a fleet that is slow as a whole, the slower half may just miss a limit that the faster half just meets.
TEST(Culprits, BlameNoGpuForALimitThatItMissesByLessThanTheWholeFleetMissesAnother) {
  const std::string read = "hbm/op:read/engine:sm/bytes:4294967296";
  const auto culprits_with = [&](double least) {
    Measured run;
    std::vector<double> reads(8, 4160);
    reads[6] = 4140;
    run.builder.add(read, "hbm_gb_per_s", 4140, Measured::list(reads)).repeated();
    const auto rules =
        profile("  - {benchmark: \"" + hbm + "\", metric: hbm_gb_per_s, every: rank, min: " + std::to_string(least) +
                    ", source: s}\n  - {benchmark: \"" + read +
                    "\", metric: hbm_gb_per_s, every: rank, min: 4150, source: s}\n",
                "unjudged: [gemm, p2p, allreduce]\n");
    return judge({run.results()}, rules, {}).culprits;
  };
  const Diagnosis fleet = only(culprits_with(4450));
  EXPECT_EQ(fleet.causes.front(), Cause::configuration);
  EXPECT_TRUE(fleet.places.empty());
  EXPECT_EQ(fleet.keys.size(), 2u);
  const Diagnosis alone = only(culprits_with(4000));
  EXPECT_EQ(causes_text(alone), "slow GPU") << "the fleet meets the other limit";
  EXPECT_EQ(alone.places[0].rank, 6);
}

TEST(Culprits, NameTheRankWhoseDataWereWrong) {
  Measured run;
  run.builder.add_error("gemm/dtype:f32/m:8/n:8/k:8", "wrong data: rank 5 (node0 GPU-1005): 3 of 64 comparisons failed",
                        {5});
  const Diagnosis d = only(run.culprits());
  EXPECT_EQ(causes_text(d), "wrong data");
  EXPECT_EQ(d.places[0].rank, 5);
}

TEST(Culprits, NameTheSmWhoseProductsWereWrong) {
  Measured run;
  ByRank numbers;
  numbers["wrong_sm"] = RankValues(8);
  numbers["wrong_sm"][5] = 57;
  numbers["tflops"] = RankValues(8, 1);
  run.builder.add_error("sm/op:product/dtype:bf16/m:128/n:256/k:8192",
                        "wrong data: rank 5 (node0 GPU-1005): 3 of 64 comparisons failed", {5}, numbers);
  const Verdict verdict = judge({run.results()}, {}, {});
  EXPECT_EQ(verdict.state, State::fail);
  EXPECT_EQ(only(verdict.culprits).detail, "it had wrong data in 1 benchmark, computed by SM 57");
  EXPECT_NE(text(headline_of(verdict)).find("computed by SM 57"), std::string::npos) << text(headline_of(verdict));
  const auto results = run.results();
  const auto row = std::ranges::find_if(results.rows, [](const Row& r) { return r.key.family() == "sm"; });
  ASSERT_NE(row, results.rows.end());
  EXPECT_FALSE(row->by_rank.contains("tflops")) << "a failed row has no other figures";
}

TEST(Culprits, NameEveryRankWhoseDataWereWrong) {
  const std::string key = "gemm/dtype:f32/m:8/n:8/k:8";
  const auto named = [&](const std::string& error, const std::vector<int>& wrong_ranks) {
    Measured run;
    run.builder.add_error(key, error, wrong_ranks);
    std::vector<int> ranks;
    for (const Diagnosis& d : run.culprits()) {
      if (causes_text(d) == "wrong data") ranks.push_back(d.places.at(0).rank.value());
    }
    return ranks;
  };
  EXPECT_EQ(named("wrong data: rank 5 (node0 GPU-1005): block of rank 1 differs; also wrong: rank 6 (node0 GPU-1006), "
                  "rank 7 (node0 GPU-1007)",
                  {5, 6, 7}),
            (std::vector{5, 6, 7}));
  EXPECT_EQ(
      named("rank 2 (node0 GPU-1002) computed different bits than 6 of its peers from the same input; also wrong: "
            "rank 4 (node0 GPU-1004)",
            {2, 4}),
      (std::vector{2, 4}));
  EXPECT_TRUE(named("wrong data: rank 5 (node0 GPU-1005): 3 of 64 comparisons failed", {}).empty())
      << "ranks are not read from words";
}

TEST(Culprits, NameNobodyWhereTwoGpusComputedDifferentBits) {
  Measured run(2);
  run.builder.add_error("gemm/dtype:f32/m:8/n:8/k:8",
                        "rank 0 (node0) and rank 1 (node0) computed different bits from the same input with the same "
                        "algorithm (silent data corruption); which of them is wrong cannot be told");
  const Verdict verdict = judge({run.results()}, {}, {});
  EXPECT_EQ(verdict.state, State::fail);
  EXPECT_TRUE(verdict.culprits.empty());
}

TEST(Culprits, TakeASumOfBothDirectionsForNoLinkFromAGpuToItself) {
  Measured run;
  run.all_copies = true;
  run.gemm[5] *= 0.95;
  run.memory[5] *= 0.95;
  run.slow_copies(5, 0.95);
  const Diagnosis d = only(run.culprits());
  EXPECT_EQ(causes_text(d), "slow GPU");
  ASSERT_EQ(d.places.size(), 1u);
  EXPECT_EQ(d.places[0].rank, 5);
}

TEST(Culprits, TakeTheTwoEndsOfACopyForNoHost) {
  Measured run(64, 16);
  run.all_copies = true;
  run.copies[9][10] *= 0.5;
  const Diagnosis link = only(run.culprits());
  EXPECT_EQ(causes_text(link), "slow link");
  ASSERT_EQ(link.places.size(), 2u);
  EXPECT_EQ(link.places[0].rank, 9);
  EXPECT_EQ(link.places[1].rank, 10);
}

TEST(Culprits, NameTheRightDirectionOfALinkWhoseSumMissesItsFloor) {
  Measured run;
  run.all_copies = true;
  run.copies[6][2] *= 0.5;  // rows of both directions have the lower rank as source
  const Diagnosis d = only(run.culprits(copy_rules()));
  EXPECT_NE(d.detail.find(" GPU 6 to 2 "), std::string::npos);
}

TEST(Culprits, AccuseNoReceiverOfWhatASlowPortSends) {
  for (const int ranks : {3, 4, 8}) {
    Measured run(ranks);
    run.all_copies = true;
    run.slow_copies(1, 0.5);
    const Diagnosis d = only(run.culprits(copy_rules()));
    EXPECT_EQ(d.causes, (std::vector{Cause::slow_link, Cause::slow_gpu})) << ranks;
    ASSERT_EQ(d.places.size(), 1u);
    EXPECT_EQ(d.places[0].rank, 1) << ranks;
  }
}

TEST(Culprits, BlameTheConfigurationWhereAllCopiesAreSlow) {
  Measured run(4);
  run.all_copies = true;
  for (int rank = 0; rank < 4; ++rank) run.slow_copies(rank, 0.7);
  const Diagnosis d = only(run.culprits(copy_rules()));
  EXPECT_EQ(causes_text(d), "configuration");
  EXPECT_NE(d.detail.find("ACS on PCIe"), std::string::npos);
  EXPECT_EQ(d.evidence_count, 12u + 6u + 3u) << "pairs, sums, and all at once";
}

TEST(Culprits, TakeOneBadHostForNoConfiguration) {
  Measured run(16, 4);
  for (int rank = 4; rank < 8; ++rank) run.slow_copies(rank, 0.7);
  const auto culprits = run.culprits(copy_rules());
  ASSERT_FALSE(culprits.empty());
  for (const Diagnosis& d : culprits) {
    EXPECT_NE(d.causes.front(), Cause::configuration) << d.detail;
    for (const Culprit& place : d.places) EXPECT_EQ(place.host, "node1");
  }
}

TEST(Culprits, AccuseNobodyForTheRateOfAStepThatAllRanksShare) {
  const std::string step = "lora_step/model:qwen2_7b/batch:2/seq:4096";
  Measured run;
  run.gemm[3] *= 0.8;
  run.builder.add(step, "tokens_per_s", 14700);
  const auto rules =
      profile("  - {benchmark: \"" + step + "\", metric: tokens_per_s, every: rank, min: 15900, source: s}\n",
              "unjudged: [gemm, hbm, p2p, allreduce]\n");
  const Diagnosis d = only(run.culprits(rules));
  EXPECT_EQ(causes_text(d), "slow GPU");
  ASSERT_EQ(d.places.size(), 1u);
  EXPECT_EQ(d.places[0].rank, 3);
}

TEST(Culprits, CallNobodyLateWhoArrivesWithTheOthers) {
  // The network of node2 is slow: its ranks take longest, so ranks of other hosts take least.
  Measured run(8, 4);
  run.busbw = 10;
  run.seconds = {3.0, 3.1, 2.0, 2.9, 5.0, 5.1, 3.0, 3.1};
  for (std::size_t rank = 0; rank < 8; ++rank) run.arrival[rank] = 40.0 * static_cast<double>(rank % 2);
  for (const char* op : {"all_gather", "alltoall", "broadcast"}) {
    run.builder.add("collectives/op:" + std::string(op) + "/dtype:f32/bytes:1073741824", "busbw_gb_per_s", 10)
        .seconds(Measured::list(run.seconds))
        .by_rank("arrival_us", Measured::list(run.arrival));
  }
  const auto rules =
      profile("  - {benchmark: \"" + sum + "\", metric: busbw_gb_per_s, every: run, min: 300, hosts: 4, source: s}\n",
              "unjudged: [gemm, hbm, p2p, collectives]\n");
  const Diagnosis d = only(run.culprits(rules));
  EXPECT_EQ(d.causes, (std::vector{Cause::configuration, Cause::slow_link}));
  EXPECT_TRUE(d.places.empty());
}

TEST(Culprits, NameASlowGpuThatIsLateAsBoth) {
  Measured run;
  run.memory[4] *= 0.9;
  Measured late;
  run.arrival[4] = late.arrival[4] = 900;
  run.busbw = late.busbw = 100;
  const auto culprits = run.culprits();
  ASSERT_EQ(culprits.size(), 2u);
  EXPECT_EQ(causes_text(culprits[0]), "slow GPU");
  ASSERT_EQ(causes_text(culprits[1]), "late rank");
  EXPECT_EQ(culprits[1].places[0].rank, 4);
  EXPECT_NE(culprits[1].detail, only(late.culprits()).detail) << culprits[1].detail;
}

TEST(Culprits, AreTwoWhereTwoThingsAreWrong) {
  Measured run;
  run.gemm[3] *= 0.94;
  run.memory[3] *= 0.94;
  run.copies[1][6] *= 0.8;
  const auto culprits = run.culprits();
  ASSERT_EQ(culprits.size(), 2u);
  EXPECT_EQ(causes_text(culprits[0]), "slow link") << "by 20 %";
  EXPECT_EQ(causes_text(culprits[1]), "slow GPU") << "by 6 %";
}

}  // namespace
}  // namespace shakedown::diagnosis_test
