// Tests comparisons between measurements of one run.
#include "thresholds/rules/crosscheck.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/thresholds/results_builder.hpp"

namespace shakedown::crosscheck_test {
namespace {

using testing_support::ResultsBuilder;

const std::string bf16 = "gemm/dtype:bf16/m:8192/n:8192/k:8192";
const std::string copy = "p2p/op:write/engine:ce/shift:1/bytes:1073741824";
const std::string sum = "allreduce/dtype:f32/bytes:1073741824";
const std::string step = "lora_step/model:qwen2_7b/batch:2/seq:4096";

std::vector<Finding> checked(const ResultsBuilder& builder, const FamilySet& families = {}) {
  const std::vector<Results> results{builder.results()};
  return cross_check(benchmarks_of(results), families).findings;
}

ResultsBuilder run(double busbw, double copies, int ranks = 4, int hosts = 1) {
  ResultsBuilder builder(ranks, hosts);
  builder.add(copy, "copy_gb_per_s", copies).add(sum, "busbw_gb_per_s", busbw, {}, {{"latency_us", 4500}});
  return builder;
}

TEST(CrossCheck, HoldsAllReduceAgainstPeerCopies) {
  const auto good = checked(run(356, 396));
  ASSERT_EQ(good.size(), 1u);
  EXPECT_EQ(good[0].status, Status::pass);
  EXPECT_EQ(good[0].judgement, Judgement::crosscheck);
  EXPECT_EQ(good[0].code, Code::crosscheck);
  EXPECT_EQ(good[0].detail, "AllReduce 0.90 of the peer copies");
  const auto bad = checked(run(40, 396));
  ASSERT_EQ(bad.size(), 1u);
  EXPECT_EQ(bad[0].status, Status::fail);
  EXPECT_EQ(bad[0].key, sum);
  EXPECT_DOUBLE_EQ(bad[0].limit->value, 0.75 * 396);
  EXPECT_FALSE(bad[0].next.empty());
}

TEST(CrossCheck, HoldsTheBestAllReduceAgainstPeerCopiesOnce) {
  auto several = run(280, 396);
  several.add("allreduce/dtype:bf16/bytes:1073741824", "busbw_gb_per_s", 350)
      .add("allreduce/dtype:f64/bytes:1073741824", "busbw_gb_per_s", 20);
  const auto found = checked(several);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].key, "allreduce/dtype:bf16/bytes:1073741824");
  EXPECT_EQ(found[0].value, 350);
}

TEST(CrossCheck, AcceptsAnAllReduceAtItsLimit) {
  EXPECT_EQ(checked(run(0.75 * 396, 396)).at(0).status, Status::pass);
  EXPECT_EQ(checked(run(0.75 * 396 - 0.01, 396)).at(0).status, Status::fail);
}

TEST(CrossCheck, HoldsAnAllReduceOfAGigabyteAgainstPeerCopies) {
  const auto with = [](const std::string& bytes) {
    ResultsBuilder builder;
    builder.add(copy, "copy_gb_per_s", 396).add("allreduce/dtype:f32/bytes:" + bytes, "busbw_gb_per_s", 350);
    return checked(builder).size();
  };
  EXPECT_EQ(with("1000000000"), 1u);
  EXPECT_EQ(with("999999996"), 0u);
}

TEST(CrossCheck, OnlyWarnsWhereNoNvlinkJoinsThePeers) {
  const auto found = checked(run(20, 50));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].status, Status::fail);
  EXPECT_FALSE(found[0].counts());
  EXPECT_TRUE(checked(run(20, nvlink_class_gb_per_s)).at(0).counts());
}

TEST(CrossCheck, ComparesWithCopiesThatTheEnginesMakeOneWay) {
  auto others = run(40, 50);
  for (const char* key : {"p2p/op:write/engine:sm/shift:1/bytes:1073741824",
                          "p2p/op:write/engine:ce/dir:both/shift:1/bytes:1073741824"}) {
    for (int i = 1; i < 4; ++i) others.add(Key(key).set("shift", i).text(), "copy_gb_per_s", 396);
  }
  EXPECT_EQ(checked(others).at(0).status, Status::pass) << "40 of 50";
}

TEST(CrossCheck, SaysWhatToDoOnlyWhereTheMeasurementsDoNotFit) {
  EXPECT_EQ(checked(run(356, 396)).at(0).next, "");
  const auto of_step = [](double ms) {
    ResultsBuilder builder(1);
    builder.add(bf16, "tflops", 665).add(step, "step_ms", ms);
    return checked(builder).at(0).next;
  };
  EXPECT_EQ(of_step(601), "");
  EXPECT_NE(of_step(6010), "") << "slower than its parts";
  EXPECT_NE(of_step(60), "") << "faster than its parts";
}

TEST(CrossCheck, DoesNotMixTheNetworkWithNvlink) {
  EXPECT_TRUE(checked(run(40, 396, 16, 2)).empty()) << "over two hosts the network limits";
  auto own = run(40, 396, 16, 2);
  own.add(sum + "/scope:node", "busbw_gb_per_s", 350);
  EXPECT_EQ(checked(own).at(0).status, Status::pass) << "each host alone";
}

TEST(CrossCheck, SaysNothingWithoutBothMeasurements) {
  EXPECT_TRUE(checked(ResultsBuilder().add(sum, "busbw_gb_per_s", 40)).empty());
  EXPECT_TRUE(checked(ResultsBuilder().add(copy, "copy_gb_per_s", 396)).empty());
  EXPECT_TRUE(checked(run(40, 396), {{"gemm"}}).empty()) << "another family is judged";
  ResultsBuilder small;
  small.add(copy, "copy_gb_per_s", 396).add("allreduce/dtype:f32/bytes:1048576", "busbw_gb_per_s", 40);
  EXPECT_TRUE(checked(small).empty()) << "1 MiB is bound by latency";
}

TEST(CrossCheck, DoesNotBelieveAStepFasterThanTheFastestProduct) {
  const auto step_of = [](double ms) {
    ResultsBuilder builder(1);
    builder.add(bf16, "tflops", 665).add(step, "step_ms", ms);
    return checked(builder).at(0);
  };
  EXPECT_EQ(step_of(390).status, Status::pass) << "263.2 TFLOP in 388 ms are 1.02 of 665 TFLOPS";
  EXPECT_EQ(step_of(380).status, Status::invalid);
  EXPECT_EQ(step_of(380).limit->kind, LimitKind::least);
}

// One H200: 8192 tokens x 32.13 GFLOP at 0.65 x 665 TFLOPS are 609 ms.
TEST(CrossCheck, PredictsTheStepFromItsParts) {
  const auto step_of = [](double ms, int ranks, double allreduce_us) {
    ResultsBuilder builder(ranks);
    builder.add(bf16, "tflops", 665).add(step, "step_ms", ms);
    if (ranks > 1) builder.add(sum, "latency_us", allreduce_us);
    return checked(builder);
  };
  const auto good = step_of(601, 1, 0);
  ASSERT_EQ(good.size(), 1u);
  EXPECT_EQ(good[0].status, Status::pass);
  EXPECT_NEAR(good[0].limit->value, 1.3 * 609, 2);
  const auto seeds = step_of(601 / 0.206, 4, 4500);
  ASSERT_EQ(seeds.size(), 1u);
  EXPECT_EQ(seeds[0].status, Status::fail) << "20.6 % of what one GPU does";
  EXPECT_NEAR(seeds[0].limit->value, 1.3 * (609 + 4.5 * 645.9 / 1073.7), 3);
  const auto slow_network = step_of(1200, 4, 1e6);
  EXPECT_EQ(slow_network.at(0).status, Status::pass) << "the AllReduce explains it, and is judged by itself";
}

TEST(CrossCheck, AcceptsAStepAtItsLimits) {
  const auto of_step = [](double ms) {
    ResultsBuilder builder(1);
    builder.add(bf16, "tflops", 665).add(step, "step_ms", ms);
    return checked(builder).at(0);
  };
  for (const double ms : {60.0, 6000.0}) {
    const auto limit = of_step(ms).limit->value;
    EXPECT_EQ(of_step(limit).status, Status::pass) << limit;
    EXPECT_EQ(of_step(limit * (ms < limit ? 1 - 1e-9 : 1 + 1e-9)).status, ms < limit ? Status::invalid : Status::fail);
  }
}

TEST(CrossCheck, PredictsTheStepFromTheLargestProductsOfBf16) {
  const auto limit_with = [](const std::string& key, double tflops) {
    ResultsBuilder builder(1);
    builder.add(bf16, "tflops", 665).add(key, "tflops", tflops).add(step, "step_ms", 601);
    return checked(builder).at(0).limit->value;
  };
  const double usual = limit_with(bf16, 665);
  EXPECT_NEAR(limit_with("gemm/dtype:bf16/m:16384/n:8192/k:8192", 332.5), 2 * usual, 0.01) << "the slowest of them";
  EXPECT_EQ(limit_with("gemm/dtype:bf16/m:16384/n:8192/k:8192", 700), usual);
  EXPECT_EQ(limit_with("gemm/dtype:bf16/m:16384/n:8192/k:8192", 0), usual) << "nothing was measured";
  for (const char* small : {"gemm/dtype:bf16/m:4096/n:8192/k:8192", "gemm/dtype:bf16/m:8192/n:4096/k:8192",
                            "gemm/dtype:bf16/m:8192/n:8192/k:4096", "gemm/dtype:fp8_e4m3/m:8192/n:8192/k:4096"}) {
    EXPECT_EQ(limit_with(small, 100), usual) << small;
  }
}

TEST(CrossCheck, PredictsTheSumsOfAStepFromTheNearestSizeAbove) {
  const auto limit_with = [](const std::vector<std::pair<std::string, double>>& sums) {
    ResultsBuilder builder(4);
    builder.add(bf16, "tflops", 665).add(step, "step_ms", 601);
    for (const auto& [key, us] : sums) builder.add(key, "latency_us", us);
    return checked(builder).at(0).limit->value;
  };
  const std::string half = "allreduce/dtype:f32/bytes:536870912", more = "allreduce/dtype:f32/bytes:2147483648";
  const double above = limit_with({{sum, 1e6}});
  EXPECT_EQ(limit_with({{half, 9e6}, {sum, 1e6}, {more, 9e6}}), above);
  EXPECT_EQ(limit_with({{more, 9e6}, {half, 9e6}, {sum, 1e6}}), above);
  const double below = limit_with({{half, 1e6}});
  EXPECT_GT(below, above) << "the largest there is, and a step sums more than that";
  EXPECT_EQ(limit_with({{"allreduce/dtype:f32/bytes:8", 9e6}, {half, 1e6}}), below);
  EXPECT_EQ(limit_with({{sum + "/scope:node", 9e6}, {sum, 1e6}}), above) << "of a part of the ranks";
}

TEST(CrossCheck, DoesNotPredictWhatItDoesNotKnow) {
  ResultsBuilder builder(1);
  builder.add(bf16, "tflops", 665).add("lora_step/model:unheard_of/batch:2/seq:4096", "step_ms", 9000);
  EXPECT_TRUE(checked(builder).empty());
  EXPECT_TRUE(checked(ResultsBuilder(1).add(step, "step_ms", 9000)).empty()) << "no GEMM";
  ResultsBuilder idle(1);
  idle.add(bf16, "tflops", 665).add(step, "step_ms", 9000, {}, {{"model_tflops", 0}});
  EXPECT_TRUE(checked(idle).empty()) << "a step of no operations";
}

}  // namespace
}  // namespace shakedown::crosscheck_test
