// The Device interface: names, keys, sizes and costs of the specs.
#include "kernels/device.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <vector>

#include "base/files.hpp"

#include "kernels/chase.hpp"
#include "kernels/ops/collective.hpp"
#include "kernels/ops/copy.hpp"
#include "kernels/ops/exchange.hpp"
#include "kernels/ops/gemm.hpp"
#include "kernels/ops/jitter.hpp"
#include "kernels/ops/latency.hpp"
#include "kernels/ops/launch.hpp"
#include "kernels/ops/moe.hpp"
#include "kernels/ops/sm.hpp"
#include "kernels/transformer/checkpoint_spec.hpp"
#include "kernels/transformer/step_spec.hpp"

namespace shakedown::device_test {
namespace {

TEST(Key, NamesFamilyAndEveryParameter) {
  EXPECT_EQ(key(GemmSpec{DType::bf16, 8192, 8192, 4096}), "gemm/dtype:bf16/m:8192/n:8192/k:4096");
  EXPECT_EQ(key(HbmSpec{HbmOp::copy, Engine::sm, 1024}), "hbm/op:copy/engine:sm/bytes:1024");
  EXPECT_EQ(key(PeerCopySpec{CopyOp::read, Engine::ce, 0, 3, 64}), "p2p/op:read/engine:ce/src:0/dst:3/bytes:64");
  EXPECT_EQ(key(PeerCopySpec{CopyOp::write, Engine::sm, 0, 3, 64, true}),
            "p2p/op:write/engine:sm/dir:both/src:0/dst:3/bytes:64");
  EXPECT_EQ(key(PeerShiftSpec{CopyOp::read, Engine::ce, 2, 64}), "p2p/op:read/engine:ce/shift:2/bytes:64");
  EXPECT_EQ(key(PeerLatencySpec{Engine::sm, 1, 0, 4096}), "p2p/op:latency/engine:sm/src:1/dst:0/bytes:4096");
  EXPECT_EQ(key(PeerLatencyShiftSpec{Engine::sm, 3, 4096}), "p2p/op:latency/engine:sm/shift:3/bytes:4096");
  EXPECT_EQ(key(PeerShiftSpec{CopyOp::read, Engine::sm, 1, 8, true}),
            "p2p/op:read/engine:sm/shift:1/ranks:even/bytes:8");
  EXPECT_EQ(key(PcieSpec{PcieOp::h2d, 64}), "pcie/op:h2d/bytes:64");
  EXPECT_EQ(key(PcieSpec{PcieOp::both, 64, 2, true}), "pcie/op:both/active:one/rank:2/numa:far/bytes:64");
  EXPECT_EQ(key(MemoryLatencySpec{Engine::cpu, 4096}), "hbm/op:latency/engine:cpu/bytes:4096");
  EXPECT_EQ(key(MemoryTestSpec{TestPattern::random, std::nullopt}), "memtest/pattern:random/bytes:free");
  EXPECT_EQ(key(MemoryTestSpec{TestPattern::address, 4096}), "memtest/pattern:address/bytes:4096");
  EXPECT_EQ(key(MemoryTestSpec{TestPattern::moving, std::nullopt, true}),
            "memtest/pattern:moving/load:products/bytes:free");
  EXPECT_EQ(key(CollectiveSpec{CollectiveOp::all_reduce, DType::f32, 8}), "allreduce/dtype:f32/bytes:8");
  EXPECT_EQ(key(CollectiveSpec{CollectiveOp::all_reduce, DType::bf16, 8, 1, Place::in}),
            "allreduce/dtype:bf16/bytes:8/place:in");
  EXPECT_EQ(key(CollectiveSpec{CollectiveOp::all_reduce, DType::f16, 8, 1, Place::out, Launch::graph}),
            "allreduce/dtype:f16/bytes:8/launch:graph");
  EXPECT_EQ(key(CollectiveSpec{CollectiveOp::all_gather, DType::f32, 1048576, 4}),
            "collectives/op:all_gather/dtype:f32/bytes:1048576");
  EXPECT_EQ(key(CollectiveSpec{CollectiveOp::sendrecv, DType::f32, 8}), "collectives/op:sendrecv/dtype:f32/bytes:8");
  EXPECT_EQ(key(LoraStepSpec{.model = "qwen2_7b", .batch = 2, .seq = 4096, .dtype = DType::fp8_e4m3}),
            "lora_step/model:qwen2_7b/dtype:fp8/batch:2/seq:4096");
  EXPECT_EQ(key(LoraStepSpec{.model = "qwen2_7b", .batch = 2, .seq = 4096, .ranks = 4}),
            "lora_step/model:qwen2_7b/batch:2/seq:4096");
  EXPECT_EQ(key(LoraStepSpec{.model = "tiny",
                             .batch = 1,
                             .seq = 8,
                             .dtype = DType::f64,
                             .accumulation = 3,
                             .retain = training::Retain::inputs,
                             .sums = DType::bf16,
                             .bucket = 4096}),
            "lora_step/model:tiny/dtype:f64/batch:1/seq:8/accumulation:3/retain:inputs/sums:bf16/bucket:4096");
  EXPECT_EQ(key(TrainStepSpec{.model = "gpt2_124m", .batch = 32, .seq = 1024, .ranks = 4}),
            "train_step/model:gpt2_124m/batch:32/seq:1024");
  const TrainStepSpec shared{.model = "gpt2_124m", .batch = 1, .seq = 1024, .shard = training::Shard::weights};
  EXPECT_EQ(key(CheckpointSpec{CheckpointOp::read, shared}), "checkpoint/op:read/model:gpt2_124m/shard:weights");
  EXPECT_EQ(cost(CheckpointSpec{CheckpointOp::read, shared}).bytes, 3 * 4 * 124475904.0);
  EXPECT_EQ(key(with(shared, "accumulation:2")),
            "train_step/model:gpt2_124m/batch:1/seq:1024/accumulation:2/shard:weights");
  EXPECT_EQ(key(with(shared, "shard:none")), "train_step/model:gpt2_124m/batch:1/seq:1024");
  const auto refusal = [&](const std::string& part) { return input_error_of([&] { with(shared, part); }); };
  EXPECT_EQ(refusal("batch:64k").rfind("batch:64k: '64k' ", 0), 0U);
  EXPECT_TRUE(refusal("retain:some").ends_with(", inputs"));
  EXPECT_EQ(
      refusal("colour:red"),
      "colour:red: 'colour' is not one of batch, seq, accumulation, retain, sums, bucket, shard, masters, state, data "
      "and tp, as "
      "in batch:64");
  EXPECT_EQ(key(TileProductSpec{}), "sm/op:product/dtype:bf16/m:128/n:256/k:8192");
  EXPECT_EQ(key(TileProductSpec{.load = Load::sustained}),
            "sm/op:product/dtype:bf16/m:128/n:256/k:8192/load:sustained");
  EXPECT_EQ(key(PageReadSpec{4096}), "sm/op:read/bytes:4096");
  EXPECT_EQ(key(JitterSpec{}), "jitter/op:fwq/quanta:100");
  EXPECT_EQ(key(JitterSpec{.turn = 2}), "jitter/op:fwq/quanta:100/turn:2");
  EXPECT_EQ(key(LaunchSpec{.op = LaunchOp::kernel}), "launch/op:kernel");
  EXPECT_EQ(key(LaunchSpec{.op = LaunchOp::graph, .kernels = 20, .turn = 2}), "launch/op:graph/kernels:20/turn:2");
}

TEST(Key, OfAVariantIsThatOfTheDefaultAndMore) {
  GemmSpec spec{DType::fp8_e4m3, 16, 32, 48};
  const std::string plain = "gemm/dtype:fp8_e4m3/m:16/n:32/k:48";
  EXPECT_EQ(key(spec), plain);
  spec.accumulate = Accumulate::exact;
  EXPECT_EQ(key(spec), plain + "/accumulate:exact");
  spec.scaling = Scaling::row;
  EXPECT_EQ(key(spec), plain + "/accumulate:exact/scale:row");
  spec.scaling = Scaling::block128;
  spec.data = MatrixData::zeros;
  spec.load = Load::sustained;
  spec.active = 2;
  EXPECT_EQ(key(spec), plain + "/accumulate:exact/scale:block128/data:zeros/load:sustained/active:one/rank:2");
}

TEST(Cost, CountsWhatTheModelNeedsWhateverIsComputedTwice) {
  LoraStepSpec spec{.model = "qwen2_7b", .batch = 2, .seq = 4096};
  EXPECT_NEAR(cost(spec).flops / 1e12, 263.2, 0.1);
  spec.retain = training::Retain::inputs;
  EXPECT_NEAR(cost(spec).flops / 1e12, 263.2, 0.1);
  spec.accumulation = 2;
  EXPECT_NEAR(cost(spec).flops / 1e12, 526.4, 0.2);
  spec.seq = 0;
  EXPECT_THROW(cost(spec), std::invalid_argument);
}

TEST(Cost, CountsTheGradientOfEveryWeightThatIsTrained) {
  EXPECT_NEAR(cost(TrainStepSpec{.model = "gpt2_124m", .batch = 32, .seq = 1024}).flops / 32768 / 1e6, 807.47, 0.01);
  // Without a mask all pairs count, so half of the length gives the same number.
  EXPECT_NEAR(cost(TrainStepSpec{.model = "encoder_163m", .batch = 8, .seq = 512}).flops / 4096 / 1e6, 807.47, 0.01);
  EXPECT_THROW(cost(TrainStepSpec{.model = "gpt2_124m", .batch = 1, .seq = 1025}), std::invalid_argument);
  EXPECT_THROW(cost(LoraStepSpec{.model = "encoder_163m", .batch = 1, .seq = 8}), std::invalid_argument);
}

TEST(Cost, CountsWhatTheLiteratureCounts) {
  EXPECT_EQ(cost(GemmSpec{DType::f32, 2, 3, 5}).flops, 60);
  EXPECT_EQ(cost(HbmSpec{HbmOp::copy, Engine::cpu, 100}).bytes, 200);
  EXPECT_EQ(cost(HbmSpec{HbmOp::read, Engine::sm, 100}).bytes, 100);
  EXPECT_EQ(cost(HbmSpec{HbmOp::write, Engine::sm, 100}).bytes, 100);
  EXPECT_EQ(cost(HbmSpec{HbmOp::scale, Engine::sm, 100}).bytes, 200);
  EXPECT_EQ(cost(HbmSpec{HbmOp::add, Engine::sm, 100}).bytes, 300);
  EXPECT_EQ(cost(HbmSpec{HbmOp::triad, Engine::sm, 100}).bytes, 300);
  EXPECT_EQ(cost(PeerCopySpec{CopyOp::read, Engine::cpu, 0, 1, 100, true}).bytes, 200);
  EXPECT_EQ(cost(PeerShiftSpec{CopyOp::read, Engine::cpu, 1, 100}).bytes, 100);
  EXPECT_EQ(cost(PeerLatencySpec{Engine::cpu, 0, 1, std::size_t{2} << 20}).bytes, 8 * 16384);
  EXPECT_EQ(cost(MemoryLatencySpec{Engine::cpu, std::size_t{2} << 20}).bytes, 8 * 4096);
  EXPECT_EQ(cost(PcieSpec{PcieOp::d2h, 100}).bytes, 100);
  EXPECT_EQ(cost(PcieSpec{PcieOp::both, 100}).bytes, 200);
  EXPECT_EQ(cost(MemoryTestSpec{TestPattern::random, 100}).bytes, 200);
  EXPECT_EQ(cost(MemoryTestSpec{TestPattern::moving, 100}).bytes, 600) << "three times written and read";
  EXPECT_EQ(cost(PeerCopySpec{CopyOp::read, Engine::cpu, 0, 1, 100}).bytes, 100);
  EXPECT_EQ(cost(CollectiveSpec{CollectiveOp::all_reduce, DType::f64, 104}).bytes, 104);
}

TEST(Cost, OfACollectiveIsTheSizeOfNcclTests) {
  for (const auto op :
       {CollectiveOp::all_reduce, CollectiveOp::all_gather, CollectiveOp::reduce_scatter, CollectiveOp::alltoall,
        CollectiveOp::broadcast, CollectiveOp::reduce, CollectiveOp::sendrecv}) {
    EXPECT_EQ(cost(CollectiveSpec{op, DType::f32, 1048576, 4}).bytes, 1048576) << name(op);
  }
}

TEST(Layout, GivesEveryRankAPart) {
  const auto gathered = layout({CollectiveOp::all_gather, DType::f32, 1024, 4});
  EXPECT_EQ(gathered.part, 256u);
  EXPECT_EQ(gathered.in, 256u);
  EXPECT_EQ(gathered.out, 1024u);
  const auto scattered = layout({CollectiveOp::reduce_scatter, DType::f32, 1024, 4});
  EXPECT_EQ(scattered.in, 1024u);
  EXPECT_EQ(scattered.out, 256u);
  EXPECT_EQ(layout({CollectiveOp::alltoall, DType::f32, 1024, 4}).in, 1024u);
  EXPECT_EQ(layout({CollectiveOp::broadcast, DType::f32, 1024, 4}).part, 1024u);
}

TEST(Exchange, SendsAllBytesOfARankInPartsThatDifferByItsSkew) {
  constexpr std::size_t bytes = 1'000'004, ranks = 7;
  for (const int skew : {0, 2}) {
    const ExchangeParts parts(ExchangeSpec{bytes, ranks, skew});
    std::size_t received = 0;
    for (std::size_t from = 0; from < ranks; ++from) {
      EXPECT_EQ(parts.sent_at(from, ranks), bytes);
      std::set<std::size_t> sizes;
      for (std::size_t to = 0; to < ranks; ++to) sizes.insert(parts.of(from, to));
      const auto ratio = static_cast<double>(*sizes.rbegin()) / static_cast<double>(*sizes.begin());
      EXPECT_GE(ratio, skew == 0 ? 1 : 1.5);
      EXPECT_LE(ratio, 1.001 * std::exp(skew));
      received += parts.received(from);
      EXPECT_LE(parts.received(from), parts.largest_received());
    }
    EXPECT_EQ(received, ranks * bytes) << "every byte has a receiver";
    EXPECT_LT(parts.busiest(), parts.largest_received());
  }
  EXPECT_EQ(key(ExchangeSpec{4096, 2, 2}), "collectives/op:alltoallv/skew:2/dtype:f32/bytes:4096");
  const ExchangeParts few(ExchangeSpec{4, 3, 0});
  EXPECT_EQ(few.received(2), 12U) << "the last part has what is left";
}

/// Returns the probability that none of `top` different experts of `experts` is among `here` of them.
double none_of(int experts, int here, int top) {
  double none = 1;
  for (int i = 0; i < top; ++i) none *= static_cast<double>(experts - here - i) / (experts - i);
  return none;
}

TEST(Experts, GetEachTokenOnceOnEachRank) {
  for (const std::size_t ranks : {std::size_t{1}, std::size_t{2}, std::size_t{8}}) {
    const MoeSpec spec{.op = MoeOp::dispatch, .ranks = static_cast<int>(ranks)};
    const MoeRouting routing(spec);
    std::size_t copies = 0;
    for (std::size_t from = 0; from < ranks; ++from) {
      std::vector<int> of_token(spec.tokens);
      for (std::size_t to = 0; to < ranks; ++to) {
        const auto& tokens = routing.tokens(from, to);
        EXPECT_TRUE(std::is_sorted(tokens.begin(), tokens.end()));
        for (const auto token : tokens) ++of_token[token];
        EXPECT_EQ(std::set(tokens.begin(), tokens.end()).size(), tokens.size()) << "a token is sent once to a rank";
        copies += tokens.size();
      }
      EXPECT_GE(*std::min_element(of_token.begin(), of_token.end()), 1) << "each token has a rank";
    }
    const double expected = static_cast<double>(ranks * ranks * spec.tokens) *
                            (1 - none_of(spec.experts, spec.experts / spec.ranks, spec.top));
    EXPECT_NEAR(static_cast<double>(copies), expected, 0.01 * expected) << "experts are equally popular";
  }
  EXPECT_EQ(key(MoeSpec{.op = MoeOp::combine, .skew = 2}),
            "moe/op:combine/experts:256/top:8/hidden:7168/tokens:4096/skew:2");
}

TEST(Experts, OfOtherPopularityLoadRanksUnequally) {
  const auto spread = [](int skew) {
    const MoeRouting routing(MoeSpec{.op = MoeOp::dispatch, .experts = 16, .top = 2, .skew = skew, .ranks = 8});
    std::vector<double> received;
    for (std::size_t rank = 0; rank < 8; ++rank) received.push_back(static_cast<double>(routing.received(rank)));
    return *std::max_element(received.begin(), received.end()) / *std::min_element(received.begin(), received.end());
  };
  EXPECT_LT(spread(0), 1.05);
  EXPECT_GT(spread(2), 1.5);
}

TEST(Experts, HaveNumbersWhoseWeightedSumsAreExactInBf16) {
  for (unsigned integer = 0; integer <= 256; ++integer) {
    EXPECT_EQ(std::bit_cast<float>(std::uint32_t{MoeNumbers::bits(integer)} << 16), static_cast<float>(integer));
  }
  const MoeNumbers numbers{64, 32};
  unsigned largest = 0;
  for (std::uint64_t token = 0; token < 64; ++token) {
    for (std::uint64_t i = 0; i < 32; ++i) {
      largest = std::max(largest, numbers.weight(1, 2, token) * numbers.output(1, 2, token, i));
    }
  }
  EXPECT_EQ(largest, 28U);
  EXPECT_LE(largest * MoeRouting::max_top, 256U);
}

TEST(Layout, CutsPartsToWholeVectorsOrElementsButLeavesOne) {
  const auto part = [](std::size_t bytes, int ranks) {
    return layout({CollectiveOp::alltoall, DType::f32, bytes, ranks}).part;
  };
  EXPECT_EQ(part(1048576, 3), 349520u);  // 349525 rounded down to a multiple of 16
  EXPECT_EQ(part(8, 1), 8u);
  EXPECT_EQ(part(8, 2), 4u);
  EXPECT_EQ(part(8, 8), 4u);
  EXPECT_EQ(part(64, 7), 8u);
  EXPECT_EQ(cost(CollectiveSpec{CollectiveOp::all_gather, DType::f32, 8, 8}).bytes, 32) << "what is really moved";
}

TEST(Layout, RefusesWhatIsNoWholeNumberOfElements) {
  EXPECT_THROW(layout({CollectiveOp::reduce, DType::f32, 6, 2}), std::invalid_argument);
  EXPECT_THROW(layout({CollectiveOp::reduce, DType::f32, 0, 2}), std::invalid_argument);
  EXPECT_THROW(layout({CollectiveOp::reduce, DType::f32, 8, 0}), std::invalid_argument);
}

TEST(Layout, RefusesAVariantThatOnlyAnAllReduceHas) {
  const CollectiveSpec in_place{CollectiveOp::all_gather, DType::f32, 1024, 4, Place::in};
  const CollectiveSpec by_graph{CollectiveOp::broadcast, DType::f32, 1024, 4, Place::out, Launch::graph};
  EXPECT_THROW(layout(in_place), std::invalid_argument);
  EXPECT_THROW(layout(by_graph), std::invalid_argument);
  EXPECT_EQ(layout({CollectiveOp::all_reduce, DType::f32, 1024, 4, Place::in}).out, 1024u);
}

TEST(BusFactor, IsThatOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveOp::all_reduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveOp::all_gather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveOp::broadcast, 4), 1);
}

TEST(Cost, OfLargeProductsDoesNotOverflow) {
  EXPECT_DOUBLE_EQ(cost(GemmSpec{DType::bf16, 16384, 16384, 16384}).flops, 8796093022208.0);
}

TEST(Footprint, CountsInputsAndOutputs) {
  EXPECT_EQ(footprint(GemmSpec{DType::f64, 2, 3, 5}), (10u + 15u + 6u) * 8u);
  EXPECT_EQ(footprint(CollectiveSpec{CollectiveOp::all_reduce, DType::f32, 8}), 16u);
  EXPECT_EQ(footprint(HbmSpec{HbmOp::read, Engine::sm, 8}), 8u);
  EXPECT_EQ(footprint(HbmSpec{HbmOp::triad, Engine::sm, 8}), 24u);
  EXPECT_EQ(footprint(CollectiveSpec{CollectiveOp::all_reduce, DType::f32, 8, 1, Place::in}),
            4095u * 64 + 8);  // one place for each operation of a sample
  EXPECT_EQ(footprint(CollectiveSpec{CollectiveOp::all_gather, DType::f32, 1024, 4}), 1280u);
}

TEST(Footprint, OfAProductKnowsItsResultAndPackedTypes) {
  EXPECT_EQ(footprint(GemmSpec{DType::int8, 2, 3, 5}), 10u + 15u + 6u * 4u);
  EXPECT_EQ(footprint(GemmSpec{DType::fp8_e4m3, 2, 3, 5}), 10u + 15u + 6u * 2u);
  EXPECT_EQ(footprint(GemmSpec{DType::nvfp4, 2, 3, 5}), 5u + 8u + 6u * 2u);
  EXPECT_EQ(footprint(GemmSpec{DType::tf32, 2, 3, 5}), (10u + 15u + 6u) * 4u);
}

TEST(Chain, VisitsEveryNodeOnceAndComesBack) {
  for (const std::size_t count : {1u, 2u, 8u, 1024u}) {
    const auto chain = chase::chain(count);
    std::set<std::uint64_t> seen;
    std::uint64_t node = 0;
    do {
      EXPECT_EQ(chain[node] >> 32, node);
      seen.insert(node);
      node = chain[node] & 0xffffffffU;
    } while (node != 0 && seen.size() <= count);
    EXPECT_EQ(seen.size(), count);
  }
  EXPECT_EQ(chase::nodes(std::size_t{2} << 20), 16384u);
  EXPECT_EQ(chase::nodes((std::size_t{2} << 20) - 1), 8192u);
}

TEST(Route, OfAPairAndOfAShift) {
  const PeerCopySpec pair{CopyOp::write, Engine::sm, 0, 2, 64};
  EXPECT_EQ(route(pair, 0).to, 2);
  EXPECT_EQ(route(pair, 0).from, std::nullopt);
  EXPECT_EQ(route(pair, 2).from, 0);
  EXPECT_FALSE(route(pair, 1).takes_part());
  auto both = pair;
  both.both = true;
  EXPECT_EQ(route(both, 2).to, 0);
  EXPECT_EQ(route(both, 0).from, 2);
  const PeerShiftSpec shift{CopyOp::read, Engine::sm, 3, 64};
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(route(shift, r, 4).to, (r + 3) % 4);
    EXPECT_EQ(route(shift, *route(shift, r, 4).to, 4).from, r);
  }
  EXPECT_EQ(route(shift, 1, 4).driven(CopyOp::read), 2);
  EXPECT_EQ(route(shift, 1, 4).driven(CopyOp::write), 0);
}

TEST(ADigest, SeesEveryBitAndPlaceAndNoTwoChangesThatAreAlike) {
  for (const std::size_t bytes : {1u, 15u, 16u, 100u}) {
    for (const auto fill : {std::byte{0}, std::byte{0xff}, std::byte{0x5a}}) {
      std::vector<std::byte> data(bytes, fill);
      std::set<std::uint64_t> digests{digest_of(data)};
      for (std::size_t i = 0; i < 8 * bytes; ++i) {
        data[i / 8] ^= std::byte{1} << (i % 8);
        digests.insert(digest_of(data));
        for (std::size_t j = i + 8; j < 8 * bytes; j += 8) {  // also for the same bit of another byte
          data[j / 8] ^= std::byte{1} << (j % 8);
          digests.insert(digest_of(data));
          data[j / 8] ^= std::byte{1} << (j % 8);
        }
        data[i / 8] ^= std::byte{1} << (i % 8);
      }
      EXPECT_EQ(digests.size(), 1 + 8 * bytes + 8 * bytes * (bytes - 1) / 2) << bytes << " bytes";
    }
  }
}

TEST(ACheck, ThatComparedNothingHasNotPassed) { EXPECT_FALSE(Check{}.passed()); }

TEST(Remembered, ChoicesAreTakenWhereTheyLoseNothing) {
  Alone group;
  EXPECT_TRUE(still_best(group, 1.0, 1.1));
  EXPECT_TRUE(still_best(group, 1.01, 1.0)) << "as near as two turns of the same";
  EXPECT_FALSE(still_best(group, 1.05, 1.0));
  EXPECT_FALSE(still_best(group, HUGE_VAL, 1.0)) << "it does not run";
  EXPECT_FALSE(still_best(group, HUGE_VAL, HUGE_VAL));
}

}  // namespace
}  // namespace shakedown::device_test
