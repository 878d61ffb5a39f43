// Tests which ranks of one run are outliers.
#include "thresholds/units/peers.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/statistics.hpp"
#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/units/classes.hpp"
#include "thresholds/units/doubt.hpp"

namespace shakedown::peers_test {
namespace {

std::vector<std::string> keys_in_doubt(const std::map<std::string, std::vector<RankData>>& measured, double at_least) {
  std::vector<std::string> keys;
  for (const Doubt& doubt : rows_in_doubt(measured, at_least)) keys.push_back(doubt.key);
  return keys;
}

using testing_support::profile;
using testing_support::ResultsBuilder;
using testing_support::Values;

const std::string gemm = "gemm/dtype:bf16/m:8192/n:8192/k:8192";
const std::string hbm = "hbm/op:copy/engine:sm/bytes:4294967296";

Verdict judged(const ResultsBuilder& builder) { return judge({builder.results()}, {}, {}); }

Values values(std::size_t ranks, double typical, std::initializer_list<std::pair<std::size_t, double>> others = {}) {
  Values list;
  // Healthy ranks differ slightly, so that the MAD is not 0.
  for (std::size_t i = 0; i < ranks; ++i) list.emplace_back(typical * (1 + 0.0002 * static_cast<double>(i % 5)));
  for (const auto& [rank, value] : others) list[rank] = value;
  return list;
}

std::vector<Finding> outliers(const Verdict& verdict) {
  std::vector<Finding> found;
  for (const Finding& f : verdict.findings) {
    if (f.judgement == Judgement::peers) found.push_back(f);
  }
  return found;
}

std::string said(const Verdict& verdict) {
  for (const Summary& summary : verdict.summaries) {
    if (summary.by == Judgement::peers) return summary.text;
  }
  return "nothing";
}

TEST(Peers, NameWhoFallsShortOnAMachineThatNobodyKnows) {
  ResultsBuilder builder(8, 1, "Unheard-of GPU");
  builder.add(hbm, "hbm_gb_per_s", 3800, values(8, 4000, {{5, 3800}})).repeated();
  const Verdict verdict = judged(builder);
  EXPECT_EQ(verdict.state, State::fail) << "an unknown machine is never a pass, and this one has a slow GPU";
  const auto found = outliers(verdict);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].key, hbm);
  EXPECT_EQ(found[0].metric, "hbm_gb_per_s_vs_peers");
  EXPECT_EQ(found[0].status, Status::fail);
  EXPECT_EQ(found[0].worst->rank, 5);
  EXPECT_EQ(found[0].value, 3800);
  EXPECT_EQ(found[0].offender_count, 1u);
  EXPECT_NE(found[0].detail.find("5.0 % below "), std::string::npos) << found[0].detail;
  EXPECT_EQ(found[0].next, "mpirun -np 8 build/bench/bench_hbm --benchmark_filter='^" + hbm + "(/|$)'");
}

TEST(Peers, AreNoReferenceForAMachineThatNobodyKnows) {
  ResultsBuilder builder(8, 1, "Unheard-of GPU");
  builder.add(hbm, "hbm_gb_per_s", 4000, values(8, 4000));
  const Verdict verdict = judged(builder);
  EXPECT_EQ(verdict.state, State::no_reference);
  EXPECT_TRUE(outliers(verdict).empty());
  EXPECT_EQ(said(verdict), "8 values of 8 ranks compared, no outlier");
}

TEST(Peers, FailAMachineThatMeetsEveryFloor) {
  ResultsBuilder builder(8);
  builder.add(hbm, "hbm_gb_per_s", 4000, values(8, 4200, {{2, 4000}})).repeated();
  const auto rules =
      profile("  - {benchmark: \"" + hbm + "\", metric: hbm_gb_per_s, every: rank, min: 3900, source: s}\n");
  const Verdict verdict = judge({builder.results()}, rules, {});
  EXPECT_EQ(verdict_line(verdict), "VERDICT: FAIL 8/9 (profile test, 8 ranks)");
  EXPECT_EQ(outliers(verdict).at(0).worst->rank, 2);
}

TEST(Peers, DoNotCountWhatIsLessThanThreePercent) {
  ResultsBuilder builder(64);
  builder.add(hbm, "hbm_gb_per_s", 3900, values(64, 4000, {{7, 3900}}));
  EXPECT_TRUE(outliers(judged(builder)).empty()) << "2.5 %, however sure";
}

TEST(Peers, AccuseNobodyOfBeingFast) {
  ResultsBuilder builder(8);
  builder.add(hbm, "hbm_gb_per_s", 4000, values(8, 4000, {{1, 4600}}));
  EXPECT_TRUE(outliers(judged(builder)).empty());
}

TEST(Peers, KnowWhichDirectionIsBad) {
  const std::string key = "p2p/op:latency/engine:sm/shift:1/bytes:2097152";
  ResultsBuilder builder(8);
  builder.add(key, "latency_us", 1.2, values(8, 0.83, {{3, 1.2}, {4, 0.5}}));
  const auto found = outliers(judged(builder));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].worst->rank, 3);
  EXPECT_EQ(found[0].limit->kind, LimitKind::max);
}

TEST(Peers, WidenTheirLimitsWhereRanksDiffer) {
  ResultsBuilder builder(16);
  Values wide;
  for (int i = 0; i < 16; ++i) wide.emplace_back(4000 * (1 + 0.02 * (i % 4 - 1.5)));
  wide[3] = 3700;
  builder.add(hbm, "hbm_gb_per_s", 3700, wide);
  EXPECT_TRUE(outliers(judged(builder)).empty()) << "7.5 % is nothing where healthy ranks differ by 6 %";
}

TEST(Peers, AllowRawGemmWhatHealthyChipsShow) {
  ResultsBuilder builder(8);
  builder.add(gemm, "tflops", 620, values(8, 720, {{6, 620}}));
  EXPECT_TRUE(outliers(judged(builder)).empty()) << "14 % in a burst: the committed files show as much";
  ResultsBuilder per_ghz(8);
  per_ghz.add(gemm, "tflops", 680, values(8, 720)).by_rank("tflops_per_ghz", values(8, 454, {{6, 430}}));
  EXPECT_EQ(outliers(judged(per_ghz)).at(0).metric, "tflops_per_ghz_vs_peers") << "5 % at the same clock";
}

// Chips 0.17 % apart per GHz. `ahead` is the advantage of the best one, which shows how heavy the tails are.
TEST(Peers, AllowTheWorstOfManyMoreThanTheWorstOfFew) {
  const auto stands_out = [](int n, double ahead, double behind) {
    ResultsBuilder builder(n, n / 8);
    for (const char* m : {"4096", "8192", "16384"}) {
      Values rates;
      for (int rank = 0; rank < n; ++rank) {
        const double chip = 0.0017 * normal_quantile((rank * 37 % n + 0.5) / n);
        rates.emplace_back(500 * (1 + (rank == 1 ? ahead : rank == 5 ? -behind : std::min(chip, ahead))));
      }
      builder.add("gemm/dtype:bf16/m:" + std::string(m) + "/n:8192/k:8192", "tflops", 700)
          .by_rank("tflops_per_ghz", rates);
    }
    return !outliers(judged(builder)).empty();
  };
  EXPECT_FALSE(stands_out(8, 0.005, 0.022)) << "as a chip of one fleet in 500, if tails are heavy";
  EXPECT_TRUE(stands_out(8, 0.005, 0.027));
  EXPECT_FALSE(stands_out(64, 0.005, 0.022)) << "as the worst chip of one fleet in 100, if tails are heavy";
  EXPECT_TRUE(stands_out(64, 0.005, 0.027));
  EXPECT_FALSE(stands_out(1024, 0.009, 0.04)) << "as the worst chip of one such fleet in 100";
  EXPECT_TRUE(stands_out(1024, 0.009, 0.045));
  EXPECT_TRUE(stands_out(1024, 0.0015, 0.027)) << "tails are light";
}

// A small fault looks like another make of memory, and like the slowest of many healthy GPUs.
TEST(Peers, WarnOfAGpuThatIsAsSlowAsAHealthyGpuMayBe) {
  const auto of_fleet = [](int gpus, double behind) {
    ResultsBuilder builder(gpus, gpus / 8);
    for (const char* bytes : {"268435456", "1073741824", "4294967296"}) {
      Values rates;
      for (int rank = 0; rank < gpus; ++rank)
        rates.emplace_back(4000 * (1 + (rank == 1 ? 0.006 : rank == 5 ? 0.002 - behind : 0.001 * (rank % 5))));
      builder.add("hbm/op:copy/engine:sm/bytes:" + std::string(bytes), "hbm_gb_per_s", 4000, rates);
    }
    return judged(builder);
  };
  for (const int gpus : {8, 64, 256}) {
    const Verdict slow = of_fleet(gpus, 0.02);
    EXPECT_TRUE(outliers(slow).empty()) << gpus;
    ASSERT_EQ(slow.culprits.size(), 1u) << gpus;
    EXPECT_FALSE(slow.culprits[0].fails);
    EXPECT_EQ(slow.culprits[0].causes.front(), Cause::slow_silicon);
    EXPECT_EQ(slow.culprits[0].places.front().rank, 5);
    EXPECT_EQ(slow.culprits[0].detail,
              "memory of 1 GPU is up to 2.0 % below the median, as that of healthy GPUs may be: another make of "
              "memory, or remapped rows");
    EXPECT_TRUE(of_fleet(gpus, 0.014).culprits.empty()) << gpus;
    EXPECT_FALSE(outliers(of_fleet(gpus, 0.03)).empty()) << "3 % is found in fleets of all sizes";
  }
}

// Of three rows with one engine, two may be low by accident.
TEST(Peers, SayNothingOfMemoryOfASmallFleetThatIsSlightlySlowWithOneEngine) {
  ResultsBuilder builder(8);
  for (const char* engine : {"sm", "ce"}) {
    for (const char* bytes : {"268435456", "1073741824", "4294967296"}) {
      const double slow = std::string(engine) == "ce" ? 0.975 : 1;
      builder.add("hbm/op:copy/engine:" + std::string(engine) + "/bytes:" + bytes, "hbm_gb_per_s", 3900,
                  values(8, 4000, {{5, 4000 * slow}}));
    }
  }
  const Verdict verdict = judged(builder);
  EXPECT_TRUE(outliers(verdict).empty());
  EXPECT_TRUE(verdict.culprits.empty()) << verdict.culprits.front().detail;
}

TEST(Peers, TakeTheMedianOverRepetitions) {
  ResultsBuilder builder(8);
  builder.add(hbm, "hbm_gb_per_s", 4000, values(8, 4000, {{2, 3000}}));
  for (int i = 0; i < 2; ++i) builder.add(hbm, "hbm_gb_per_s", 4000, values(8, 4000));
  EXPECT_TRUE(outliers(judged(builder)).empty()) << "one bad repetition of three";
}

TEST(Peers, CompareOnlyTheSameKindOfDevice) {
  ResultsBuilder builder(8);
  for (std::size_t rank = 4; rank < 8; ++rank) builder.context.ranks[rank].device = "NVIDIA H100 80GB HBM3";
  builder.add(hbm, "hbm_gb_per_s", 2900, {4200, 4201, 4199, 4202, 2900, 2901, 2899, 2902});
  EXPECT_TRUE(outliers(judged(builder)).empty());
  ResultsBuilder slow = ResultsBuilder(8);
  slow.context = builder.context;
  slow.add(hbm, "hbm_gb_per_s", 2700, {4200, 4201, 4199, 4202, 2900, 2901, 2700, 2902});
  EXPECT_EQ(outliers(judged(slow)).at(0).worst->rank, 6);
}

TEST(Peers, SayThatOneRankHasNone) {
  ResultsBuilder builder(1);
  builder.add(hbm, "hbm_gb_per_s", 4000);
  EXPECT_EQ(said(judged(builder)).rfind("only 1 rank, ", 0), 0U);
}

TEST(Peers, OfTwoRanksTakeTheFasterForGood) {
  ResultsBuilder builder(2);
  builder.add(hbm, "hbm_gb_per_s", 3800, {4000, 3800});
  EXPECT_EQ(outliers(judged(builder)).at(0).worst->rank, 1);
  ResultsBuilder close(2);
  close.add(hbm, "hbm_gb_per_s", 3950, {4000, 3950});
  EXPECT_TRUE(outliers(judged(close)).empty());
}

TEST(Peers, FailNothingOnTheHostBackend) {
  auto builder = ResultsBuilder::host(4);
  builder.add("hbm/op:copy/engine:cpu/bytes:268435456", "hbm_gb_per_s", 1, {10, 10, 10, 1});
  const Verdict verdict = judged(builder);
  const auto found = outliers(verdict);
  ASSERT_EQ(found.size(), 1u) << "named";
  EXPECT_FALSE(found[0].counts());
  EXPECT_EQ(verdict.state, State::no_reference);
}

TEST(Peers, CompareCopiesOfAllPairsOfAHost) {
  ResultsBuilder builder(4);
  for (int src = 0; src < 4; ++src) {
    for (int dst = 0; dst < 4; ++dst) {
      if (src == dst) continue;
      Values list(4);
      list[static_cast<std::size_t>(dst)] = src == 1 && dst == 3 ? 310 : 396.0 + 0.01 * src;
      builder.add(
          "p2p/op:read/engine:ce/src:" + std::to_string(src) + "/dst:" + std::to_string(dst) + "/bytes:1073741824",
          "copy_gb_per_s", 396, list);
    }
  }
  const auto found = outliers(judged(builder));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].key, "p2p/op:read/engine:ce/src:*/dst:*/bytes:1073741824");
  EXPECT_EQ(found[0].worst->rank, 3);
}

TEST(Peers, TakeTheSumOfBothDirectionsFromOneEnd) {
  ResultsBuilder builder(2);
  builder.add("p2p/op:write/engine:ce/dir:both/src:0/dst:1/bytes:1073741824", "copy_gb_per_s", 784, {784, 784});
  EXPECT_EQ(said(judged(builder)), "no benchmark has values of two ranks of the same kind") << "it is one value";
  ResultsBuilder hosts(32, 16);
  Values sums(32, 784.0);
  sums[6] = sums[7] = 400;
  hosts.add("p2p/op:write/engine:ce/dir:both/src:0/dst:1/bytes:1073741824", "copy_gb_per_s", 400, sums);
  const auto found = outliers(judged(hosts));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].metric, "copy_gb_per_s_vs_peers") << "one pair is no host";
  EXPECT_EQ(found[0].worst->rank, 7);
  EXPECT_EQ(found[0].offender_count, 1u);
}

TEST(Peers, SeeTheSlowerOfTwoHostsThoughHalfOfAllRanksAreTheMedian) {
  ResultsBuilder builder(16, 2);
  Values list = values(16, 4000);
  for (std::size_t rank = 8; rank < 16; ++rank) *list[rank] *= 0.92;
  builder.add(hbm, "hbm_gb_per_s", 3680, list).repeated();
  const Verdict verdict = judged(builder);
  ASSERT_EQ(outliers(verdict).size(), 1u);
  EXPECT_EQ(outliers(verdict)[0].offender_count, 8u);
  ASSERT_EQ(verdict.culprits.size(), 1u);
  EXPECT_EQ(verdict.culprits[0].causes.front(), Cause::slow_node);
  EXPECT_EQ(verdict.culprits[0].places.at(0).host, "node1");
}

TEST(Peers, TakePairsThatWereMeasuredForASlowGpuForNoSampleOfItsHost) {
  ResultsBuilder builder(16, 2);
  for (const auto& key : {hbm, std::string("hbm/op:read/engine:sm/bytes:4294967296")})
    builder.add(key, "hbm_gb_per_s", 3600, values(16, 4000, {{1, 3600}})).repeated();
  for (int other = 0; other < 8; ++other) {
    if (other == 1) continue;
    for (const auto& [src, dst] : {std::pair(1, other), {other, 1}}) {
      Values pair(16);
      pair[static_cast<std::size_t>(dst)] = 350;  // on the first host
      pair[static_cast<std::size_t>(dst) + 8] = 396;
      builder.add(fmt::format("p2p/op:write/engine:ce/src:{}/dst:{}/bytes:1073741824", src, dst), "copy_gb_per_s", 350,
                  pair);
    }
  }
  const Verdict verdict = judged(builder);
  ASSERT_FALSE(verdict.culprits.empty());
  EXPECT_EQ(verdict.culprits[0].causes.front(), Cause::slow_gpu);
  EXPECT_EQ(verdict.culprits[0].places.at(0).rank, 1);
  for (const Diagnosis& d : verdict.culprits) EXPECT_NE(d.causes.front(), Cause::slow_node) << d.detail;
}

TEST(Peers, SeeTheSlowHostOfTwoThatIsNoGroupApart) {
  Values far = values(16, 4000);
  for (std::size_t rank = 8; rank < 16; ++rank) *far[rank] *= 0.80 + 0.02 * static_cast<double>(rank - 8);
  const auto found = outliers(judged(ResultsBuilder(16, 2).add(hbm, "hbm_gb_per_s", 3200, far)));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].worst->host, "node1");
}

/// Ranks `slow` of 8 have 0.97 of the rate of the others in each row of GEMM.
Verdict with_slow(const std::vector<std::size_t>& slow) {
  ResultsBuilder builder(8);
  for (const char* n : {"4096", "8192", "16384"}) {
    Values list = values(8, 480);
    for (const std::size_t rank : slow) *list[rank] *= 0.97;
    builder.add("gemm/dtype:bf16/m:" + std::string(n) + "/n:8192/k:8192", "tflops", 600)
        .by_rank("tflops_per_ghz", list);
  }
  return judged(builder);
}

TEST(Peers, NameHalfOfTheGpusAndMoreWhereTheyAreASlowGroup) {
  for (const std::vector<std::size_t>& slow :
       {std::vector<std::size_t>{3}, {1, 2}, {0, 1, 2}, {0, 1, 2, 3}, {1, 3, 5, 6, 7}, {0, 1, 2, 4, 6, 7}}) {
    const auto found = outliers(with_slow(slow));
    ASSERT_EQ(found.size(), 3u) << slow.size();
    for (const Finding& f : found) {
      ASSERT_EQ(f.offender_count, slow.size());
      for (const Culprit& c : f.offenders) {
        EXPECT_NE(std::find(slow.begin(), slow.end(), static_cast<std::size_t>(*c.rank)), slow.end()) << *c.rank;
      }
    }
  }
  EXPECT_TRUE(outliers(with_slow({0, 1, 2, 3, 4, 5, 6})).empty()) << "one that is faster than all others is no group";
}

TEST(Peers, NameAGpuThatIsSlowInOneDirectionOrByOneEngineOnly) {
  struct Slow {
    std::string part;
    int end = 0;  // of a copy between GPUs: 0 its destination, 1 its source
  };
  for (const Slow& slow : {Slow{"hbm/op:copy/engine:ce"},
                           {"pcie/op:d2h/active:one"},
                           {"p2p/op:read/engine:sm", 0},
                           {"p2p/op:read", 0},
                           {"p2p/op:write/engine:ce", 1},
                           {"p2p/op:write/engine:ce", 0}}) {
    const auto rate = [&](const std::string& key, double usual) {
      return key.compare(0, slow.part.size(), slow.part) == 0 ? 0.9 * usual : usual;
    };
    ResultsBuilder builder(8);
    for (const char* engine : {"sm", "ce"}) {
      for (const int bytes : {1 << 28, 1 << 29, 1 << 30}) {
        const std::string key = fmt::format("hbm/op:copy/engine:{}/bytes:{}", engine, bytes);
        builder.add(key, "hbm_gb_per_s", 4000, values(8, 4000, {{5, rate(key, 4000)}}));
      }
      for (const char* op : {"read", "write"}) {
        for (int shift = 1; shift < 8; ++shift) {
          const std::string key = fmt::format("p2p/op:{}/engine:{}/shift:{}/bytes:1073741824", op, engine, shift);
          const auto at = static_cast<std::size_t>(slow.end == 0 ? 5 : (5 + shift) % 8);
          builder.add(key, "copy_gb_per_s", 390, values(8, 390, {{at, rate(key, 390)}}));
        }
      }
    }
    for (const char* op : {"h2d", "d2h"}) {
      for (std::size_t rank = 0; rank < 8; ++rank) {
        const std::string key = fmt::format("pcie/op:{}/active:one/rank:{}/bytes:268435456", op, rank);
        Values one(8);
        one[rank] = rank == 5 ? rate(key, 55) : 55;
        builder.add(key, "copy_gb_per_s", 55, one);
        if (*one[rank] < 55) builder.repeated();
      }
    }
    const Verdict verdict = judged(builder);
    ASSERT_EQ(verdict.culprits.size(), 1u) << slow.part << " " << slow.end;
    ASSERT_EQ(verdict.culprits[0].places.size(), 1u) << slow.part;
    EXPECT_EQ(verdict.culprits[0].places[0].rank, 5) << slow.part << " " << slow.end;
  }
}

TEST(Peers, LeaveOutWhatFailedOrIsNoPerformance) {
  ResultsBuilder builder(4);
  builder.add(hbm, "hbm_gb_per_s", 1, {4000, 4000, 4000, 1000}).add_error(hbm, "wrong data");
  builder.add("allreduce/dtype:f32/bytes:1073741824", "busbw_gb_per_s", 1, {360, 360, 360, 100});
  EXPECT_TRUE(outliers(judged(builder)).empty());
}

/// Rows of a class: HBM copies of several sizes.
std::string copy_of(int i) { return "hbm/op:copy/engine:sm/bytes:" + std::to_string(1 << (20 + i)); }

// Rank 1 is slower in all six rows.
Verdict with_slow_copies(int ranks, double rate) {
  ResultsBuilder builder(ranks);
  for (int i = 0; i < 6; ++i)
    builder.add(copy_of(i), "hbm_gb_per_s", rate, values(builder.context.ranks.size(), 4000, {{1, rate}}));
  return judged(builder);
}

TEST(Peers, WarnOfTwoPercentThatAllRowsOfAClassAgreeOn) {
  for (const int ranks : {2, 3, 4, 8, 64}) {
    const Verdict verdict = with_slow_copies(ranks, 3920);
    EXPECT_TRUE(outliers(verdict).empty()) << ranks;
    ASSERT_EQ(verdict.culprits.size(), 1u) << ranks;
    EXPECT_FALSE(verdict.culprits[0].fails) << ranks;
    EXPECT_EQ(verdict.culprits[0].places.at(0).rank, 1) << ranks;
  }
}

TEST(Peers, FailThreePercentThatAllRowsOfAClassAgreeOn) {
  for (const int ranks : {2, 3, 4, 8, 64}) {
    const auto found = outliers(with_slow_copies(ranks, 3880));
    ASSERT_EQ(found.size(), 6u) << ranks;
    for (const Finding& f : found) {
      EXPECT_TRUE(f.counts());
      EXPECT_EQ(f.offender_count, 1u);
      EXPECT_EQ(f.worst->rank, 1) << ranks;
    }
  }
}

/// GEMM of 8 GPUs. Rank 5 is slow only under sustained load, and then has these TFLOPS per GHz.
ResultsBuilder slow_under_load(const std::vector<double>& measurements) {
  ResultsBuilder builder(8);
  for (const char* type : {"bf16", "f16"}) {
    builder.add("gemm/dtype:" + std::string(type) + "/m:8192/n:8192/k:8192", "tflops", 670, values(8, 670))
        .by_rank("tflops_per_ghz", values(8, 480));
  }
  for (const double per_ghz : measurements) {
    builder.add(gemm + "/load:sustained", "tflops", 640, values(8, 670, {{5, 670 * per_ghz / 480}}))
        .by_rank("tflops_per_ghz", values(8, 480, {{5, per_ghz}}))
        .by_rank("sm_mhz", Values(8, 1395));
  }
  return builder;
}

TEST(Peers, NameAGpuThatIsSlowUnderSustainedLoadIfASecondMeasurementConfirmsIt) {
  using Case = std::pair<std::vector<double>, Status>;
  for (const auto& [measurements, status] :
       {Case{{456}, Status::inconclusive}, Case{{456, 456}, Status::fail}, Case{{440, 480}, Status::inconclusive}}) {
    const auto found = outliers(judged(slow_under_load(measurements)));
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].key, gemm + "/load:sustained");
    EXPECT_EQ(found[0].metric, "tflops_per_ghz_vs_peers");
    EXPECT_EQ(found[0].status, status) << measurements.size();
    EXPECT_EQ(found[0].severity, Severity::fail);
    EXPECT_EQ(found[0].worst->rank, 5);
  }
}

TEST(Peers, NameAGpuThatIsSlowUnderSustainedLoadAndInAStep) {
  ResultsBuilder builder = slow_under_load({456});
  builder.add("lora_step/model:qwen2_7b/batch:2/seq:4096", "tokens_per_s", 15000)
      .by_rank("tokens_per_s_per_ghz", values(8, 13000, {{5, 12350}}));
  const auto found = outliers(judged(builder));
  ASSERT_EQ(found.size(), 2u);
  for (const Finding& finding : found) {
    EXPECT_EQ(finding.status, Status::fail) << finding.key;
    EXPECT_EQ(finding.worst->rank, 5) << finding.key;
  }
}

/// How much two versions of a VBIOS differ, and the GPUs of one version.
struct Versions {
  double rate = 0.983;        // of the GPUs with the second version
  double variation = 0.0002;  // difference of one GPU from the next one, of five
};

/// The VBIOS of 32 GPUs on 4 hosts, of which some have the second version.
std::vector<std::optional<std::string>> vbios_with(const std::vector<int>& hosts) {
  std::vector<std::optional<std::string>> vbios(32, "96.00.A5");
  for (const int host : hosts) std::fill_n(vbios.begin() + 8 * host, 8, "96.00.B9");
  return vbios;
}

/// 32 GPUs on 4 hosts; those on some hosts have the second VBIOS. `others` are factors of single GPUs.
ResultsBuilder two_versions(const std::vector<int>& hosts, std::map<std::size_t, double> others = {},
                            const Versions& versions = {}) {
  ResultsBuilder builder(32, 4);
  const auto vbios = vbios_with(hosts);
  builder.add_facts("preflight/of:gpu", {}, {{"vbios", vbios}});
  for (const char* n : {"4096", "8192", "16384"}) {
    Values per_ghz;
    for (std::size_t rank = 0; rank < 32; ++rank) {
      per_ghz.emplace_back(500 * (1 + versions.variation * static_cast<double>(rank % 5)) *
                           (vbios[rank] == "96.00.B9" ? versions.rate : 1) *
                           (others.contains(rank) ? others[rank] : 1));
    }
    builder.add("gemm/dtype:bf16/m:" + std::string(n) + "/n:8192/k:8192", "tflops", 670)
        .by_rank("tflops_per_ghz", per_ghz);
  }
  return builder;
}

TEST(Peers, TakeTwoVersionsOfAFactForOneDifferenceOfTheFleet) {
  const Verdict verdict = judged(two_versions({1, 3}));
  EXPECT_TRUE(verdict.culprits.empty());
  const auto found = outliers(verdict);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Severity::info);
  EXPECT_EQ(found[0].metric, "tflops_per_ghz_by_vbios");
  EXPECT_NE(found[0].detail.find("vbios 96.00.B9 are 1.7 % slower than 16 with 96.00.A5"), std::string::npos)
      << found[0].detail;
  for (const std::size_t slow : {2u, 10u}) {
    const Verdict faulty = judged(two_versions({1, 3}, {{slow, 0.95}}));
    ASSERT_EQ(faulty.culprits.size(), 1u) << "a slow GPU of either version";
    EXPECT_EQ(faulty.culprits[0].places.at(0).rank, static_cast<int>(slow));
  }
}

TEST(Peers, DivideTheFleetByAFactAlthoughItsGroupsOverlap) {
  const auto populations = [](const Verdict& verdict) {
    return std::ranges::count(verdict.findings, Code::population, &Finding::code);
  };
  const Versions overlapping{.rate = 0.993, .variation = 0.002};  // from -0.7 to 0.1 % and from 0 to 0.8 %
  EXPECT_EQ(populations(judged(two_versions({1, 3}, {}, overlapping))), 1);
  EXPECT_EQ(populations(judged(two_versions({1, 3}, {{8, 1.008}}, overlapping))), 0)
      << "a GPU of the slower group is as fast as the typical GPU of the faster one";
  EXPECT_EQ(populations(judged(two_versions({1, 3}, {}, {.rate = 0.997, .variation = 0.002}))), 0)
      << "less than any limit can show";
}

TEST(Peers, HintAtAFactThatOnlyOneHostHas) {
  const Verdict verdict = judged(two_versions({1}));
  ASSERT_EQ(verdict.culprits.size(), 1u) << "one host is no population";
  EXPECT_EQ(verdict.culprits[0].places.at(0).host, "node1");
  EXPECT_FALSE(verdict.culprits[0].fails) << "the fact may be why";
  EXPECT_NE(verdict.culprits[0].detail.find("with 96.00.A5"), std::string::npos);
  EXPECT_NE(verdict.culprits[0].detail.find("; vbios 96.00.B9, "), std::string::npos) << verdict.culprits[0].detail;
}

/// 32 GPUs on 4 hosts; these have memory of another make, which no fact shows.
ResultsBuilder two_makes(const std::vector<std::size_t>& slower, double rate = 0.98,
                         std::optional<std::size_t> slow = {}) {
  ResultsBuilder builder(32, 4);
  for (int i = 0; i < 3; ++i) {
    Values rates = values(32, 4000);
    for (const std::size_t rank : slower) rates[rank] = *rates[rank] * rate;
    if (slow) rates[*slow] = *rates[*slow] * 0.95;
    builder.add(copy_of(i), "hbm_gb_per_s", **std::ranges::min_element(rates), rates);
  }
  return builder;
}

const std::vector<std::size_t> on_three_hosts = {1, 3, 4, 6, 9, 12, 13, 17, 18, 22, 23};

TEST(Peers, TakeTwoGroupsThatNoFactDividesForOneDifferenceOfTheFleet) {
  const Verdict verdict = judged(two_makes(on_three_hosts));
  EXPECT_TRUE(verdict.culprits.empty());
  const auto found = outliers(verdict);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Severity::info);
  EXPECT_EQ(found[0].code, Code::population);
  EXPECT_EQ(found[0].metric, "hbm_gb_per_s_by_group");
  EXPECT_NE(found[0].detail.find(" 21 others"), std::string::npos);
  EXPECT_NE(found[0].detail.find("11 GPUs are 2.0 %"), std::string::npos) << found[0].detail;
  for (const std::size_t slow : {2u, 4u}) {
    const Verdict faulty = judged(two_makes(on_three_hosts, 0.98, slow));
    ASSERT_EQ(faulty.culprits.size(), 1u) << "a slow GPU of either group";
    EXPECT_TRUE(faulty.culprits[0].fails);
    ASSERT_EQ(faulty.culprits[0].places.size(), 1u);
    EXPECT_EQ(faulty.culprits[0].places[0].rank, static_cast<int>(slow));
  }
}

TEST(Peers, SuspectAGroupThatIsNoPopulation) {
  const auto suspects = [](const Verdict& verdict, bool failing) {
    std::size_t count = 0;
    for (const Diagnosis& d : verdict.culprits) count += d.fails == failing ? d.place_count : 0;
    return count;
  };
  for (const std::vector<std::size_t>& slower : {std::vector<std::size_t>{1, 9, 17}, {1, 3, 5, 7}}) {
    const Verdict healthy = judged(two_makes(slower));
    EXPECT_EQ(suspects(healthy, false), slower.size()) << "three GPUs, or one host";
    EXPECT_EQ(suspects(healthy, true), 0u) << "makes of memory differ by 2 %";
    EXPECT_EQ(suspects(judged(two_makes(slower, 0.97)), true), slower.size()) << "no healthy makes differ by 3 %";
  }
  EXPECT_EQ(suspects(judged(two_makes({1, 3, 9, 11})), false), 0u);
  EXPECT_EQ(suspects(judged(two_makes(on_three_hosts, 0.97)), true), 11u);
}

// A third of eight GPUs has memory that is 1 % faster, so the median is that of the slower make.
TEST(Peers, CompareMemoryWithTheFasterOfTwoMakesInAHost) {
  const auto fails = [](double rate) {
    ResultsBuilder builder(8);
    for (int i = 0; i < 3; ++i)
      builder.add(copy_of(i), "hbm_gb_per_s", 4000 * rate,
                  values(8, 4000, {{0, 4040}, {1, 4042}, {2, 4041}, {5, 4000 * rate}}));
    return !outliers(judged(builder)).empty();
  };
  EXPECT_TRUE(fails(0.98)) << "3 % below the faster make";
  EXPECT_FALSE(fails(0.99));
}

TEST(Peers, FailASlowGpuOfTheFasterGroupOfAPopulation) {
  ResultsBuilder builder(32, 4);
  for (int i = 0; i < 3; ++i) {
    Values rates = values(32, 4000);
    for (const std::size_t rank : on_three_hosts) rates[rank] = *rates[rank] * 0.99;
    rates[2] = 4000 * 0.97;
    builder.add(copy_of(i), "hbm_gb_per_s", 3880, rates);
  }
  const Verdict verdict = judged(builder);
  ASSERT_EQ(verdict.culprits.size(), 1u);
  EXPECT_TRUE(verdict.culprits[0].fails);
  EXPECT_EQ(verdict.culprits[0].places.at(0).rank, 2);
}

TEST(Peers, FailAGroupThatMissesALimitByItsRule) {
  const auto judged_with = [](int min) {
    std::string rules;
    for (int i = 0; i < 3; ++i) {
      rules += fmt::format("  - {{benchmark: \"{}\", metric: hbm_gb_per_s, every: rank, min: {}, source: s}}\n",
                           copy_of(i), min);
    }
    return judge({two_makes(on_three_hosts).results()}, profile(rules), {});
  };
  EXPECT_EQ(judged_with(3900).state, State::pass);
  const Verdict verdict = judged_with(3950);
  EXPECT_EQ(verdict.state, State::fail);
  EXPECT_EQ(std::ranges::count_if(verdict.findings,
                                  [](const Finding& f) {
                                    return f.judgement == Judgement::rule && f.status == Status::fail &&
                                           f.severity == Severity::fail;
                                  }),
            3);
}

TEST(Peers, LeaveTheVerdictOpenForASingleValueThatNothingConfirms) {
  const std::string read = "hbm/op:read/engine:sm/bytes:4294967296";
  for (const int ranks : {8, 256}) {
    const auto n = static_cast<std::size_t>(ranks);
    ResultsBuilder builder(ranks);
    for (int i = 0; i < 6; ++i)
      builder.add(copy_of(i), "hbm_gb_per_s", 4000, values(n, 4000, {{i == 2 ? 7 : 0, i == 2 ? 3600 : 4000}}));
    EXPECT_TRUE(outliers(judged(builder)).empty()) << "one of six rows is off by 10 %: an accident";
    // A single value in its class may be an accident or a fault.
    builder.add(read, "hbm_gb_per_s", 3600, values(n, 4000, {{5, 3600}}));
    const auto found = outliers(judged(builder));
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].worst->rank, 5);
    EXPECT_EQ(found[0].status, Status::inconclusive) << ranks;
    // A value that repeats is no accident.
    for (int i = 0; i < 2; ++i) builder.add(read, "hbm_gb_per_s", 3600, values(n, 4000, {{5, 3600}}));
    EXPECT_EQ(outliers(judged(builder)).at(0).status, Status::fail);
  }
}

TEST(ASlowValue, IsInDoubtIfOneOfItsRepetitionsIsNormal) {
  const std::string read = "hbm/op:read/engine:sm/bytes:4294967296";
  const auto status_with = [&](double last) {
    ResultsBuilder builder(8);
    for (const double value : {2500.0, 3000.0, last})
      builder.add(read, "hbm_gb_per_s", value, values(8, 4000, {{5, value}}));
    const auto found = outliers(judged(builder));
    return found.size() == 1 ? found[0].status : Status::pass;
  };
  EXPECT_EQ(status_with(3990), Status::inconclusive) << "two pauses of a healthy GPU";
  EXPECT_EQ(status_with(3300), Status::fail) << "three slow values";
}

TEST(ALimit, IsInDoubtIfOneRepetitionOfASlowCopyIsNormal) {
  const std::string copy = "pcie/op:d2h/active:one/rank:1/bytes:268435456";
  const auto state_with = [&](double last) {
    ResultsBuilder builder(4);
    for (const int rank : {0, 2, 3}) {
      Values own(4);
      own[static_cast<std::size_t>(rank)] = 55.0 + rank / 10.0;
      builder.add(fmt::format("pcie/op:d2h/active:one/rank:{}/bytes:268435456", rank), "copy_gb_per_s", 55, own);
    }
    for (const double value : {34.0, 40.0, last}) {
      Values own(4);
      own[1] = value;
      builder.add(copy, "copy_gb_per_s", value, own);
    }
    const auto rules =
        profile("  - {benchmark: \"" + copy + "\", metric: copy_gb_per_s, every: rank, min: 50, source: s}\n",
                "unjudged: [gemm, hbm, p2p, allreduce, lora_step]\n");
    return judge({builder.results()}, rules, {}).state;
  };
  EXPECT_EQ(state_with(55), State::inconclusive) << "two pauses";
  EXPECT_EQ(state_with(41), State::fail) << "a slow link";
}

TEST(ACollectiveOfEachHost, IsNotSlowBecauseTwoHostsPausedInDifferentRepetitions) {
  const std::string sum = "allreduce/dtype:f32/bytes:1073741824/scope:node";
  const auto status_with = [&](std::initializer_list<std::size_t> slow_hosts) {
    ResultsBuilder builder(16, 4);
    for (const std::size_t host : slow_hosts) {
      Values own = values(16, 290);
      for (std::size_t rank = 4 * host; rank < 4 * host + 4; ++rank) own[rank] = 200;
      builder.add(sum, "busbw_gb_per_s", 200, own);
    }
    const auto rules =
        profile("  - {benchmark: \"" + sum + "\", metric: busbw_gb_per_s, every: run, min: 245, source: s}\n");
    for (const Finding& f : judge({builder.results()}, rules, {}).findings) {
      if (f.key == sum && f.metric == "busbw_gb_per_s") return f.status;
    }
    return Status::missing;
  };
  EXPECT_EQ(status_with({0, 1, 2}), Status::pass);
  EXPECT_EQ(status_with({2, 1, 2}), Status::fail) << "the host that is slow in two of three";
}

TEST(ARow, IsMeasuredAgainWhereItsOnlyValueIsFarOffAndNoOtherRowConfirmsIt) {
  const std::string read = "hbm/op:read/engine:sm/bytes:4294967296", fp8 = "gemm/dtype:fp8_e4m3/m:8192/n:8192/k:8192";
  const auto row = [](const std::string& metric, double typical, double low) {
    RankData data;
    data.by_rank[metric] = values(8, typical, {{5, low}});
    return data;
  };
  std::map<std::string, std::vector<RankData>> measured;
  measured[copy_of(0)] = measured[copy_of(1)] = {row("hbm_gb_per_s", 4000, 2000)};  // each has the other
  measured[copy_of(2)] = {row("hbm_gb_per_s", 4000, 2000)};
  measured[read] = {row("hbm_gb_per_s", 4000, 3890)};
  measured[fp8] = {row("tflops_per_ghz", 1000, 990)};
  EXPECT_TRUE(keys_in_doubt(measured, 0).empty()) << "too little to look at again";
  measured[read] = {row("hbm_gb_per_s", 4000, 3870)};
  measured[fp8] = {row("tflops_per_ghz", 1000, 970)};
  EXPECT_EQ(keys_in_doubt(measured, 0), (std::vector{read, fp8})) << "the worst first";
  EXPECT_TRUE(keys_in_doubt(measured, 0.75).empty());
  measured[read].resize(3, measured[read].front());
  EXPECT_EQ(keys_in_doubt(measured, 0), std::vector{fp8}) << "it has been";
  measured[copy_of(1)] = measured[copy_of(2)] = {row("hbm_gb_per_s", 4000, 4000)};
  EXPECT_EQ(keys_in_doubt(measured, 0), (std::vector{copy_of(0), fp8})) << "below its value elsewhere";
  measured[copy_of(0)] = measured[copy_of(1)];
  measured[fp8] = {row("tflops", 1500, 1350)};
  EXPECT_TRUE(keys_in_doubt(measured, 0).empty()) << "chips differ by as much";
  measured[fp8] = {row("tflops", 1500, 1300)};
  EXPECT_EQ(keys_in_doubt(measured, 0), std::vector{fp8});
}

TEST(ACopyToTheHost, IsMeasuredAgainForTheRankThatIsLowInThatDirection) {
  const auto key = [](const char* op, int rank) {
    return fmt::format("pcie/op:{}/active:one/rank:{}/bytes:268435456", op, rank);
  };
  std::map<std::string, std::vector<RankData>> measured;
  for (const char* op : {"h2d", "d2h"}) {
    for (int rank = 0; rank < 8; ++rank) {
      Values& list = measured[key(op, rank)].emplace_back().by_rank["copy_gb_per_s"];
      list.resize(8);
      list[static_cast<std::size_t>(rank)] = 55;
    }
  }
  EXPECT_TRUE(keys_in_doubt(measured, 0).empty());
  measured[key("d2h", 5)].front().by_rank["copy_gb_per_s"][5] = 50;
  EXPECT_EQ(keys_in_doubt(measured, 0), std::vector{key("d2h", 5)});
}

TEST(ACopyOfOnePair, IsMeasuredAgainOnAllHostsIfItIsLowOnOne) {
  // The pair was measured alone because its shift was low on another host.
  const std::string shift = "p2p/op:read/engine:ce/shift:2/bytes:1073741824";
  const std::string alone = "p2p/op:read/engine:ce/src:5/dst:3/bytes:1073741824";
  std::map<std::string, std::vector<RankData>> measured;
  measured[shift].emplace_back().by_rank["copy_gb_per_s"] = values(16, 365);
  Values& pairs = measured[alone].emplace_back().by_rank["copy_gb_per_s"];
  pairs.resize(16);
  pairs[3] = pairs[11] = 365;
  EXPECT_TRUE(keys_in_doubt(measured, 0).empty());
  pairs[11] = 300;
  EXPECT_EQ(keys_in_doubt(measured, 0), std::vector{alone});
}

TEST(TheLatencyOfALink, IsMeasuredAgainWhereItIsLongInItsShift) {
  const auto shift = [](int n) { return fmt::format("p2p/op:latency/engine:sm/shift:{}/bytes:2097152", n); };
  std::map<std::string, std::vector<RankData>> measured;
  for (int n = 1; n < 8; ++n) measured[shift(n)].emplace_back().by_rank["latency_us"] = values(8, 0.84);
  measured[shift(2)].front().by_rank["latency_us"][5] = 0.90;
  EXPECT_TRUE(keys_in_doubt(measured, 0).empty());
  measured[shift(2)].front().by_rank["latency_us"][5] = 0.95;
  EXPECT_EQ(keys_in_doubt(measured, 0), std::vector{shift(2)});
}

TEST(Peers, TakeAValueThatWasLowOnceOfThreeForAnAccident) {
  const std::string read = "hbm/op:read/engine:sm/bytes:4294967296";
  ResultsBuilder builder(8);
  builder.add(read, "hbm_gb_per_s", 3600, values(8, 4000, {{5, 3600}}));
  EXPECT_FALSE(outliers(judged(builder)).empty());
  for (int i = 0; i < 2; ++i) builder.add(read, "hbm_gb_per_s", 4000, values(8, 4000));
  EXPECT_TRUE(outliers(judged(builder)).empty());
}

TEST(Peers, KnowTheSpreadOfChipsWhereFewOfThemHideIt) {
  ResultsBuilder builder(4);
  for (int i = 0; i < 6; ++i) builder.add(copy_of(i), "hbm_gb_per_s", 3900, {4012, 4000, 3988, 3880});
  EXPECT_FALSE(outliers(judged(builder)).empty()) << "the MAD of four would allow 3 %";
}

// ---------------------------------------------------------------------------------------------------------------------
// Limits that some of many ranks miss

/// Floors of 3800 for six HBM copies of 64 GPUs; rank 9 misses the first `missed`.
Verdict with_floors(int missed, double low = 3780) {
  ResultsBuilder builder(64);
  std::string rules;
  for (int i = 0; i < 6; ++i) {
    builder.add(copy_of(i), "hbm_gb_per_s", low, values(64, 4000, {{9, i < missed ? low : 4000}}));
    rules += "  - {benchmark: \"" + copy_of(i) + "\", metric: hbm_gb_per_s, every: rank, min: 3800, source: s}\n";
  }
  return judge({builder.results()}, profile(rules), {});
}

TEST(MissedLimits, FailAGpuThatMissesThemInMostRowsOfAClass) {
  const Verdict verdict = with_floors(4);
  EXPECT_EQ(verdict.state, State::fail);
  ASSERT_EQ(verdict.culprits.size(), 1u);
  EXPECT_EQ(verdict.culprits[0].places.at(0).rank, 9);
}

/// Returns the details of the findings whose limits are missed.
std::vector<std::string> details(const Verdict& verdict) {
  std::vector<std::string> all;
  for (const Finding& f : verdict.findings) {
    if (f.status == Status::fail && f.judgement == Judgement::rule) all.push_back(f.detail);
  }
  return all;
}

TEST(MissedLimits, SayWhyTheyNameNoGpuAndOnlyThen) {
  const auto every = [](const Verdict& verdict, const std::string& word, bool has) {
    const auto all = details(verdict);
    EXPECT_FALSE(all.empty());
    return std::all_of(all.begin(), all.end(),
                       [&](const auto& d) { return (d.find(word) != std::string::npos) == has; });
  };
  EXPECT_TRUE(every(with_floors(1), "a warning: no other value", true));
  EXPECT_TRUE(every(with_floors(4), "a warning: no other value", false)) << "it has a name";
  EXPECT_TRUE(every(with_floors(4), "the whole fleet misses it", false));
}

/// Returns the finding of one HBM copy with a floor of 3800 and three repetitions, where `low` GPUs have `rate` and the
/// others slightly more.
Finding with_low(int gpus, int low, double rate) {
  ResultsBuilder builder(gpus);
  Values rates(static_cast<std::size_t>(gpus), 3801);
  std::fill_n(rates.begin(), low, rate);
  for (int i = 0; i < 3; ++i) builder.add(copy_of(0), "hbm_gb_per_s", rate, rates);
  const auto verdict = judge(
      {builder.results()},
      profile("  - {benchmark: \"" + copy_of(0) + "\", metric: hbm_gb_per_s, every: rank, min: 3800, source: s}\n"),
      {});
  const auto found = std::find_if(verdict.findings.begin(), verdict.findings.end(), [](const Finding& f) {
    return f.judgement == Judgement::rule && f.key == copy_of(0);
  });
  EXPECT_NE(found, verdict.findings.end());
  return found == verdict.findings.end() ? Finding{} : *found;
}

TEST(MissedLimits, OfATenthOfAFleetAndThreeGpusAtTheLeastAreThoseOfTheFleet) {
  const auto own = [](int gpus, int low) {
    const Finding finding = with_low(gpus, low, 3799);
    EXPECT_EQ(finding.status, Status::fail);
    EXPECT_TRUE(finding.counts());
    EXPECT_EQ(finding.worst.has_value(), finding.own && !finding.own->empty());
    return finding.own ? finding.own->size() : 999;
  };
  EXPECT_EQ(own(60, 6), 0u);
  EXPECT_EQ(own(60, 5), 5u);
  EXPECT_EQ(own(20, 3), 0u);
  EXPECT_EQ(own(20, 2), 2u);
}

TEST(MissedLimits, OfMoreThanHalfOfTheGpusAreNotDividedAmongThem) {
  EXPECT_EQ(with_low(8, 4, 3000).own, (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(with_low(8, 5, 3000).own, std::nullopt);
  EXPECT_EQ(with_low(8, 5, 3000).status, Status::fail);
  EXPECT_EQ(with_low(1, 1, 3000).own, std::vector{0}) << "a GPU alone";
}

TEST(MissedLimits, NameThoseThatMissThemByThemselves) {
  const Finding finding = with_low(64, 12, 3000);
  EXPECT_EQ(finding.own->size(), 12u);
  EXPECT_EQ(finding.offender_count, 12u);
  EXPECT_EQ(finding.offenders.size(), 12u);
  EXPECT_EQ(finding.value, 3000);
  ASSERT_TRUE(finding.worst);
  EXPECT_EQ(finding.worst->rank, 0);
}

TEST(MissedLimits, OfTheSpreadKeepTheSpreadForTheirValue) {
  ResultsBuilder builder(8);
  for (int i = 0; i < 3; ++i) builder.add(copy_of(0), "hbm_gb_per_s", 3000, values(8, 4000, {{5, 3000}}));
  const auto verdict = judge({builder.results()},
                             profile("  - {benchmark: \"" + copy_of(0) +
                                     "\", metric: hbm_gb_per_s, every: rank, spread_max: 0.05, source: s}\n"),
                             {});
  const auto found = std::find_if(verdict.findings.begin(), verdict.findings.end(), [](const Finding& f) {
    return f.judgement == Judgement::rule && f.key == copy_of(0);
  });
  ASSERT_NE(found, verdict.findings.end());
  EXPECT_EQ(found->own, std::vector{5});
  EXPECT_NEAR(*found->value, 0.25, 0.01);
  ASSERT_TRUE(found->worst);
  EXPECT_EQ(found->worst->rank, 5);
  EXPECT_EQ(found->worst->value, 3000);
}

TEST(MissedLimits, OfACopyAmongOthersFailNoPairThatIsFastAlone) {
  const std::string shift = "p2p/op:write/engine:ce/shift:1/bytes:1073741824";
  const auto counts = [&](double alone) {
    ResultsBuilder builder(4);
    for (int i = 0; i < 3; ++i) {
      builder.add(shift, "copy_gb_per_s", 367, {370, 367, 370, 370});
      builder.add("p2p/op:write/engine:ce/src:0/dst:1/bytes:1073741824", "copy_gb_per_s", alone,
                  {std::nullopt, alone, std::nullopt, std::nullopt});
    }
    const auto verdict = judge(
        {builder.results()},
        profile("  - {benchmark: \"" + shift + "\", metric: copy_gb_per_s, every: rank, min: 368, source: s}\n"), {});
    return std::any_of(verdict.findings.begin(), verdict.findings.end(), [&](const Finding& f) {
      return f.key == shift && f.judgement == Judgement::rule && f.status == Status::fail && f.counts();
    });
  };
  EXPECT_TRUE(counts(367));
  EXPECT_FALSE(counts(368));
}

TEST(MissedLimits, OfTheSpreadAreConfirmedByThreeRepetitionsWhereOtherRowsDoNotShowThem) {
  const auto own = [](int repetitions) {
    ResultsBuilder builder(8);
    for (int i = 0; i < repetitions; ++i) {
      builder.add(copy_of(0), "hbm_gb_per_s", 3700, values(8, 4000, {{5, 3700}}));
      for (int other = 1; other < 4; ++other) builder.add(copy_of(other), "hbm_gb_per_s", 4000, values(8, 4000));
    }
    const auto verdict = judge({builder.results()},
                               profile("  - {benchmark: \"" + copy_of(0) +
                                       "\", metric: hbm_gb_per_s, every: rank, spread_max: 0.05, source: s}\n"),
                               {});
    for (const Finding& f : verdict.findings) {
      if (f.judgement == Judgement::rule && f.key == copy_of(0)) return f.own.value_or(std::vector{-1});
    }
    return std::vector{-2};
  };
  EXPECT_EQ(own(3), std::vector{5});
  EXPECT_EQ(own(2), std::vector<int>{});
}

TEST(MissedLimits, OfTheSpreadOfTimesAreThoseOfTheLongest) {
  const std::string latency = "p2p/op:latency/engine:sm/shift:1/bytes:2097152";
  ResultsBuilder builder(8);
  for (int i = 0; i < 3; ++i) builder.add(latency, "latency_us", 0.95, values(8, 0.84, {{2, 0.80}, {5, 0.95}}));
  const auto verdict = judge(
      {builder.results()},
      profile("  - {benchmark: \"" + latency + "\", metric: latency_us, every: rank, spread_max: 0.1, source: s}\n"),
      {});
  const auto found = std::find_if(verdict.findings.begin(), verdict.findings.end(),
                                  [&](const Finding& f) { return f.judgement == Judgement::rule && f.key == latency; });
  ASSERT_NE(found, verdict.findings.end());
  EXPECT_EQ(found->status, Status::fail);
  EXPECT_EQ(found->own, std::vector{5});
}

TEST(MissedLimits, OfAStepWithoutTimesAreNotExcused) {
  const std::string step = "lora_step/model:qwen2_7b/batch:2/seq:4096";
  ResultsBuilder builder(8);
  builder.add(step, "tokens_per_s", 15000);
  const auto verdict = judge(
      {builder.results()},
      profile("  - {benchmark: \"" + step + "\", metric: tokens_per_s, every: rank, min: 17000, source: s}\n"), {});
  EXPECT_TRUE(std::any_of(verdict.findings.begin(), verdict.findings.end(), [](const Finding& f) {
    return f.metric == "tokens_per_s" && f.status == Status::fail && f.counts();
  }));
}

TEST(MissedLimits, OfARunWithoutValuesOfRanksNameNoRank) {
  const std::string key = "gemm/dtype:bf16/m:8192/n:8192/k:8192";
  ResultsBuilder builder(2);
  builder.add(key, "tflops", 600);
  Results results = builder.results();
  Row& row = results.rows.front();
  row.by_rank = {{"seconds", Values(2, row.real_time)}};
  const auto rules = profile("  - {benchmark: \"" + key + "\", metric: tflops, every: run, min: 620, source: s}\n");
  const auto verdict = judge({results}, rules, {});
  EXPECT_EQ(verdict.state, State::fail);
  const auto missed = std::find_if(verdict.findings.begin(), verdict.findings.end(),
                                   [&](const Finding& f) { return f.key == key && f.metric == "tflops"; });
  ASSERT_NE(missed, verdict.findings.end());
  EXPECT_EQ(missed->status, Status::fail);
  EXPECT_TRUE(missed->counts());
  EXPECT_EQ(missed->value, 600);
}

TEST(MissedLimits, AreConfirmedByMoreThanHalfOfTheRows) {
  EXPECT_EQ(with_floors(3).state, State::pass) << "three of six";
  EXPECT_EQ(with_floors(4).state, State::fail);
}

TEST(MissedLimits, AreNotedWhereNoOtherRowConfirmsOne) {
  const Verdict verdict = with_floors(1);
  EXPECT_EQ(verdict.state, State::pass) << verdict_line(verdict);
  EXPECT_TRUE(verdict.culprits.empty());
  const auto noted = std::find_if(verdict.findings.begin(), verdict.findings.end(),
                                  [](const Finding& f) { return f.status == Status::fail; });
  ASSERT_NE(noted, verdict.findings.end());
  EXPECT_EQ(noted->severity, Severity::warn);
  EXPECT_EQ(noted->offenders.at(0).rank, 9) << "the rank is named";
  EXPECT_EQ(with_floors(1, 3000).state, State::inconclusive) << "a quarter";
}

/// GPUs with `factor` of the usual GEMM rate and chips 2 % apart. One has `clock` of the others' clock, and a reason
/// from the driver.
Verdict of_chips(double factor, double clock, const Throttle& reasons = {}, int gpus = 64) {
  ResultsBuilder builder(gpus, gpus > 64 ? gpus / 8 : 1);
  std::string rules;
  for (const char* n : {"4096", "8192", "16384"}) {
    const std::string key = "gemm/dtype:bf16/m:" + std::string(n) + "/n:8192/k:8192";
    Values tflops, per_ghz, mhz;
    for (int rank = 0; rank < gpus; ++rank) {
      const double ghz = 1.5 * (1 + 0.01 * (rank % 9 - 4)) * (rank == 20 ? clock : 1);
      mhz.emplace_back(1000 * ghz);
      per_ghz.emplace_back(500 * factor * (1 + 0.0002 * (rank % 5)));
      tflops.emplace_back(*per_ghz.back() * ghz);
    }
    builder.add(key, "tflops", **std::min_element(tflops.begin(), tflops.end()), tflops)
        .by_rank("tflops_per_ghz", per_ghz)
        .by_rank("sm_mhz", mhz)
        .throttle(20, reasons);
    rules += "  - {benchmark: \"" + key + "\", metric: tflops, every: rank, min: 650, spread_max: 0.1, source: s}\n";
  }
  return judge({builder.results()}, profile(rules), {});
}

TEST(MissedLimits, OfAChipInTheKnownSpreadAreSaidAndFailNothing) {
  const Verdict slow = of_chips(1, 0.86);
  for (const Finding& f : slow.findings) EXPECT_TRUE(f.good() || !f.counts()) << f.key << " " << f.detail;
  ASSERT_EQ(slow.culprits.size(), 1u);
  EXPECT_EQ(slow.culprits[0].causes.front(), Cause::slow_silicon);
  EXPECT_EQ(of_chips(1, 0.7).state, State::fail) << "no healthy chip is that slow";
}

TEST(MissedLimits, OfAChipAtItsPowerLimitAreThatOfTheChipAsFarAsSuchChipsAreBehind) {
  const Throttle power{{"sw_power_cap", 0.6}};
  EXPECT_EQ(of_chips(1, 0.78).state, State::fail) << "nothing explains the clock";
  const Verdict slow = of_chips(1, 0.8, power);
  EXPECT_EQ(slow.state, State::pass) << verdict_line(slow);
  for (const Finding& f : slow.findings) EXPECT_TRUE(f.good() || !f.counts()) << f.key << " " << f.metric << f.detail;
  ASSERT_EQ(slow.culprits.size(), 1u) << "and said";
  EXPECT_EQ(slow.culprits[0].causes.front(), Cause::slow_silicon);
  EXPECT_EQ(of_chips(0.945, 0.88).state, State::fail);
  EXPECT_EQ(of_chips(0.945, 0.88, power).state, State::pass) << "in a fleet that is somewhat slow, too";
  EXPECT_EQ(of_chips(0.89, 0.92, power).state, State::fail) << "this fleet is nearly at its limit";
  EXPECT_EQ(of_chips(1, 0.70, power, 72).state, State::pass) << "outliers that are 1.5 times slower were published";
  EXPECT_EQ(of_chips(1, 0.45, power).state, State::fail) << "no chip has half of the clock of the others";
  EXPECT_EQ(of_chips(1, 0.78, {{"sw_power_cap", 0.6}, {"hw_thermal", 0.3}}).state, State::fail) << "heat, too";
}

TEST(MissedLimits, OfAChipAtItsPowerLimitAreOpenIfSuchChipsAreRare) {
  const Throttle power{{"sw_power_cap", 0.6}};
  for (const auto& [gpus, clock] : {std::pair{64, 0.76}, {64, 0.7}, {64, 0.6}, {24, 0.7}, {72, 0.6}}) {
    const Verdict slow = of_chips(1, clock, power, gpus);
    EXPECT_EQ(slow.state, State::inconclusive) << gpus << " GPUs: " << verdict_line(slow);
    for (const Finding& f : slow.findings) {
      const bool is_said = f.detail.find("rarely that slow") != std::string::npos;
      EXPECT_TRUE(f.good() || !f.counts() || is_said) << f.key << " " << f.metric << f.detail;
    }
    ASSERT_EQ(slow.culprits.size(), 1u);
    EXPECT_NE(slow.culprits[0].detail.find("median, farther than"), std::string::npos) << slow.culprits[0].detail;
  }
}

TEST(MissedLimits, OfAChipAtItsPowerLimitAreComparedWithTheWholeFleetIfAFactDividesIt) {
  const auto of_fleet = [](double rate) {
    ResultsBuilder builder(32, 4);
    builder.add_facts("preflight/of:gpu", {}, {{"vbios", vbios_with({1, 3})}});
    std::string rules;
    for (const char* n : {"4096", "8192", "16384"}) {
      const std::string key = "gemm/dtype:bf16/m:" + std::string(n) + "/n:8192/k:8192";
      Values per_ghz, tflops, mhz = values(32, 1500, {{9, 1440}});
      for (std::size_t rank = 0; rank < 32; ++rank) {
        per_ghz.emplace_back(500 * rate * (1 + 0.0002 * static_cast<double>(rank % 5)) *
                             (rank / 8 % 2 == 1 ? 0.98 : 1));
        tflops.emplace_back(*per_ghz.back() * *mhz[rank] / 1000);
      }
      builder.add(key, "tflops", *tflops[9], tflops).by_rank("tflops_per_ghz", per_ghz).by_rank("sm_mhz", mhz);
      builder.throttle(9, {{"sw_power_cap", 1}});
      rules += "  - {benchmark: \"" + key + "\", metric: tflops, every: rank, min: 720, source: s}\n";
    }
    return judge({builder.results()}, profile(rules), {}).state;
  };
  EXPECT_NE(of_fleet(1), State::fail);
  EXPECT_EQ(of_fleet(0.985), State::fail) << "this fleet is nearly at its limit";
}

TEST(MissedLimits, OfARowThatIsSlowPerClockAreNotTheClocks) {
  const auto of_row = [](double mhz, double per_ghz, std::size_t times) {
    ResultsBuilder builder(8);
    std::string rules;
    for (const char* n : {"4096", "8192", "16384"}) {
      const std::string key = "gemm/dtype:bf16/m:" + std::string(n) + "/n:8192/k:8192";
      const bool slow = std::string(n) == "16384";
      for (std::size_t i = 0; i < times; ++i) {
        Values work = values(8, 500, {{5, slow ? per_ghz : 500}}), clock(8, 1500.0), tflops;
        clock[5] = slow ? mhz : 1500;
        for (std::size_t rank = 0; rank < 8; ++rank) tflops.emplace_back(*work[rank] * *clock[rank] / 1000);
        builder.add(key, "tflops", *tflops[5], tflops).by_rank("tflops_per_ghz", work).by_rank("sm_mhz", clock);
      }
      rules += "  - {benchmark: \"" + key + "\", metric: tflops, every: rank, min: 650, source: s}\n";
    }
    return judge({builder.results()}, profile(rules), {});
  };
  EXPECT_EQ(of_row(1290, 500, 3).state, State::pass) << "a low clock, in which no other row is";
  const Verdict slow = of_row(1500, 430, 3);
  EXPECT_EQ(slow.state, State::fail);
  ASSERT_EQ(slow.culprits.size(), 1u);
  EXPECT_EQ(slow.culprits[0].places.at(0).rank, 5);
  EXPECT_EQ(of_row(1500, 430, 1).state, State::pass) << "once may be an accident";
}

/// A step of 8 GPUs: seven compute for 440 ms, and rank 3 has `clock` of their clock.
Verdict of_steps(double clock, double others, double per_ghz, const Throttle& reasons) {
  ResultsBuilder builder(8);
  const std::string step = "lora_step/model:qwen2_7b/batch:2/seq:4096";
  Values compute(8, 440 * others), mhz(8, 1500.0), work, tflops;
  compute[3] = 440 * others / clock;
  mhz[3] = 1500 * clock;
  for (int rank = 0; rank < 8; ++rank) {
    work.emplace_back(500 * (1 + 0.0002 * (rank % 5)) * (rank == 3 ? per_ghz : 1));
    tflops.emplace_back(*work.back() * *mhz[static_cast<std::size_t>(rank)] / 1000);
  }
  for (const char* n : {"4096", "8192", "16384"}) {
    builder.add("gemm/dtype:bf16/m:" + std::string(n) + "/n:8192/k:8192", "tflops", *tflops[3], tflops)
        .by_rank("tflops_per_ghz", work)
        .by_rank("sm_mhz", mhz)
        .throttle(3, reasons);
  }
  const double ms = *compute[3] + 10, rate = 8192 / ms * 1000;
  builder.add(step, "tokens_per_s", rate, {}, {{"step_ms", ms}}).by_rank("compute_ms", compute);
  return judge({builder.results()},
               profile("  - {benchmark: \"" + step + "\", metric: tokens_per_s, every: rank, min: 17000, source: s}\n"),
               {});
}

TEST(MissedLimits, OfAStepThatWaitsForAChipAtItsPowerLimitAreThatOfTheChip) {
  const Throttle power{{"sw_power_cap", 1}};
  const auto counts = [](const Verdict& verdict) {
    return std::any_of(verdict.findings.begin(), verdict.findings.end(),
                       [](const Finding& f) { return f.metric == "tokens_per_s" && !f.good() && f.counts(); });
  };
  const Verdict waits = of_steps(0.88, 1, 1, power);
  EXPECT_FALSE(counts(waits));
  EXPECT_TRUE(std::any_of(waits.findings.begin(), waits.findings.end(), [](const Finding& f) {
    return f.metric == "tokens_per_s" && f.detail.find("for rank 3") != std::string::npos;
  })) << "and it is said";
  EXPECT_TRUE(counts(of_steps(0.88, 1, 1, {}))) << "nothing explains the clock";
  EXPECT_TRUE(counts(of_steps(0.88, 1, 0.95, power))) << "it does less work per clock, too";
  EXPECT_FALSE(counts(of_steps(0.79, 1, 1, power))) << "within what is published of healthy chips";
  for (const double clock : {0.7, 0.6}) {
    const auto slower = of_steps(clock, 1, 1, power);
    const auto f = std::ranges::find_if(slower.findings, [](const Finding& of) { return of.metric == "tokens_per_s"; });
    ASSERT_NE(f, slower.findings.end());
    EXPECT_EQ(f->status, Status::inconclusive) << clock;
    EXPECT_NE(f->detail.find("rank 3: only"), std::string::npos) << f->detail;
  }
  EXPECT_TRUE(counts(of_steps(0.45, 1, 1, power))) << "no chip is that slow";
  EXPECT_TRUE(counts(of_steps(0.88, 1.1, 1, power))) << "the others alone would miss it";
}

/// A step of 8 GPUs, in which rank 3 takes these times and the others 440 ms.
Finding rate_of_step(std::initializer_list<double> times) {
  ResultsBuilder builder(8);
  const std::string step = "lora_step/model:qwen2_7b/batch:2/seq:4096";
  for (const double time : times) {
    builder.add(step, "tokens_per_s", 8192 / (time + 10) * 1000, {}, {{"step_ms", time + 10}})
        .by_rank("compute_ms", values(8, 440, {{3, time}}))
        .by_rank("tokens_per_s_per_ghz", values(8, 13000, {{3, 13000 * 440 / time}}));
  }
  const Verdict verdict = judge(
      {builder.results()},
      profile("  - {benchmark: \"" + step + "\", metric: tokens_per_s, every: rank, min: 17000, source: s}\n"), {});
  return *std::ranges::find(verdict.findings, "tokens_per_s", &Finding::metric);
}

TEST(MissedLimits, OfAStepThatWaitsForAGpuFailIfASecondMeasurementConfirmsIt) {
  EXPECT_EQ(rate_of_step({440}).status, Status::pass);
  EXPECT_EQ(rate_of_step({700}).status, Status::inconclusive);
  EXPECT_EQ(rate_of_step({700, 700}).status, Status::fail);
  EXPECT_EQ(rate_of_step({700, 440}).status, Status::inconclusive);
}

TEST(MissedLimits, OfAFleetThatIsSlowNameNoSingleGpu) {
  const Verdict verdict = of_chips(0.88, 1);
  EXPECT_EQ(verdict.state, State::fail);
  ASSERT_EQ(verdict.culprits.size(), 1u) << "one line, not one for each chip that is a little slower";
  EXPECT_EQ(verdict.culprits[0].causes.front(), Cause::configuration);
  EXPECT_TRUE(verdict.culprits[0].places.empty());
  const auto said = details(verdict);
  ASSERT_EQ(said.size(), 3u);
  for (const auto& detail : said) EXPECT_NE(detail.find("the whole fleet misses it"), std::string::npos) << detail;
}

TEST(Peers, KeepToTheFamilyThatIsJudged) {
  ResultsBuilder builder(4);
  builder.add(gemm, "tflops", 700).add(hbm, "hbm_gb_per_s", 1, {4000, 4001, 4002, 1000});
  JudgeOptions options;
  options.families = {{"gemm"}};
  EXPECT_TRUE(outliers(judge({builder.results()}, {}, options)).empty());
  options.families = {{"hbm"}};
  EXPECT_EQ(outliers(judge({builder.results()}, {}, options)).size(), 1u);
}

}  // namespace
}  // namespace shakedown::peers_test
