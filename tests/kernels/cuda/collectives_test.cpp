// Collectives of the CUDA backend on one GPU with one rank: their known data, the checks, captured batches, and every
// Work through the Device interface. Behaviour with several ranks is covered by the benchmark programs, which verify
// all data that they time.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/cuda/known_data.hpp"
#include "kernels/cuda/recording.hpp"
#include "kernels/ops/burn.hpp"
#include "kernels/ops/collective.hpp"
#include "kernels/ops/exchange.hpp"
#include "kernels/ops/moe.hpp"
#include "tests/kernels/cuda/on_gpu.hpp"

namespace shakedown::cuda {
namespace {

TEST_F(OnGpu, AddendsAreThoseOfTheReference) {
  const std::size_t count = 100003, first = 77;
  const auto addends = reference::addends_for(37, 256);
  auto zero_in_sum = addends;
  zero_in_sum.sum_is_zero = true;
  const Buffer f32(count * sizeof(float)), f16(count * sizeof(__half)), bf16(count * sizeof(__nv_bfloat16));
  for (const auto& used : {addends, zero_in_sum}) {
    const AddendPattern pattern{used, 21, first};
    fill_addends(*gpu_, f32, DType::f32, pattern);
    fill_addends(*gpu_, f16, DType::f16, pattern);
    fill_addends(*gpu_, bf16, DType::bf16, pattern);
    const auto singles = download<float>(f32);
    const auto halves = download<__half>(f16);
    const auto brains = download<__nv_bfloat16>(bf16);
    for (std::size_t i = 0; i < count; ++i) {
      const auto want = static_cast<float>(used.at(first + i, 21));
      ASSERT_EQ(singles[i], want) << i;
      ASSERT_EQ(__half2float(halves[i]), want) << i;
      ASSERT_EQ(__bfloat162float(brains[i]), want) << i;
    }
    for (const auto& [dtype, buffer] :
         {std::pair{DType::f32, &f32}, std::pair{DType::f16, &f16}, std::pair{DType::bf16, &bf16}}) {
      const auto tally = count_wrong(*gpu_, *buffer, dtype, pattern);
      EXPECT_EQ(tally.compared, count);
      EXPECT_EQ(tally.mismatched, 0U) << name(dtype);
    }
  }

  std::vector<float> sums(count);
  for (std::size_t i = 0; i < count; ++i) sums[i] = static_cast<float>(addends.sum(first + i));
  sums[4] = std::nanf("");
  sums[99999] += 1;
  const auto uploaded = upload(sums);
  const auto tally = count_wrong(*gpu_, uploaded, DType::f32, {addends, AddendPattern::all_ranks, first});
  EXPECT_EQ(tally.compared, count);
  EXPECT_EQ(tally.mismatched, 2U);
  EXPECT_EQ(tally.first, 4U);
}

TEST_F(OnGpu, PartsAreThoseOfTheReference) {
  const std::size_t count = 100003;
  const reference::Parts parts{1000, 3000, 5};
  const Buffer buffer(count * sizeof(std::uint32_t));
  fill_parts(*gpu_, buffer, parts);
  const auto words = download<std::uint32_t>(buffer);
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(words[i], parts.at(i)) << i;
  const std::uint32_t wrong = ~words[777];
  gpu_->write(buffer.at(4 * 777), &wrong, sizeof wrong);
  const auto tally = count_wrong(*gpu_, buffer, parts);
  EXPECT_EQ(tally.compared, count);
  EXPECT_EQ(tally.mismatched, 1U);
  EXPECT_EQ(tally.first, 777U);
}

TEST_F(OnGpu, ARecordingReplaysAllThatWasRecorded) {
  const std::size_t bytes = 4096;
  const Buffer source(5 * bytes), target(5 * bytes);
  gpu_->fill(source, 0x11);
  gpu_->fill(target, 0);
  std::size_t next = 0;
  const auto copy_next = [&] {
    check(cudaMemcpyAsync(target.at(next), source.at(next), bytes, cudaMemcpyDeviceToDevice, gpu_->stream()));
    next += bytes;
  };
  Recording recording;
  EXPECT_THROW(recording.replay(gpu_->stream(), 5), std::logic_error);
  EXPECT_TRUE(recording.record(gpu_->stream(), 5, copy_next));
  EXPECT_EQ(next, 5 * bytes);
  for (const auto byte : download<unsigned char>(target)) ASSERT_EQ(byte, 0) << "recording is not running";
  EXPECT_FALSE(recording.record(gpu_->stream(), 5, copy_next)) << "the same batch is recorded once";
  recording.replay(gpu_->stream(), 5);
  for (const auto byte : download<unsigned char>(target)) ASSERT_EQ(byte, 0x11);
  EXPECT_THROW(recording.replay(gpu_->stream(), 4), std::logic_error);
}

TEST_F(OnGpu, ARecordingThatFailsLeavesTheStreamAsItWas) {
  const Buffer target(4096);
  Recording recording;
  const auto record = [&](bool fails) {
    return recording.record(gpu_->stream(), 1, [&] {
      gpu_->fill(target, 0x22);
      if (fails) throw std::runtime_error("out of luck");
    });
  };
  EXPECT_THROW(record(true), std::runtime_error);
  gpu_->fill(target, 0x11);
  for (const auto byte : download<unsigned char>(target)) ASSERT_EQ(byte, 0x11) << "the stream records no more";
  EXPECT_TRUE(record(false));
  recording.replay(gpu_->stream(), 1);
  for (const auto byte : download<unsigned char>(target)) ASSERT_EQ(byte, 0x22);
}

TEST_F(OnGpu, CyclesOfACollectiveAreCountedWhereItsSamplesAreLong) {
  for (const bool large : {false, true}) {
    const auto work = device_->prepare(
        CollectiveSpec{CollectiveOp::all_reduce, DType::f32, large ? std::size_t{1} << 30 : std::size_t{8}});
    work->connect(group_);
    work->reset();
    device_->take_clock();
    for (int sample = 0; sample < 3; ++sample) {
      work->stage(4);
      EXPECT_GT(device_->seconds(*work, 4), 0);
    }
    const auto clock = device_->take_clock();
    ASSERT_EQ(clock.has_value(), large);
    if (large) {
      EXPECT_GT(clock->mhz, 300);
    }
    EXPECT_EQ(work->needs_lead_in(), large);
    const auto check = work->verify();
    EXPECT_TRUE(check.passed()) << check.first << ": one more operation in front of each sample leaves its trace, too";
  }
}

TEST_F(OnGpu, AllReduceOfOneRank) {
  for (const std::size_t bytes : {std::size_t{4}, std::size_t{8}, std::size_t{1004}, std::size_t{16} << 20}) {
    expect_work_is_checked(CollectiveSpec{CollectiveOp::all_reduce, DType::f32, bytes}, bytes / 4);
  }
}

TEST_F(OnGpu, AllReduceOfOneRankInEveryTypeAndByGraph) {
  for (const auto dtype : {DType::f16, DType::bf16}) {
    for (const std::size_t bytes : {std::size_t{2}, std::size_t{1006}, std::size_t{1} << 20}) {
      expect_work_is_checked(CollectiveSpec{CollectiveOp::all_reduce, dtype, bytes}, bytes / 2);
    }
  }
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{65536}}) {
    expect_work_is_checked(CollectiveSpec{CollectiveOp::all_reduce, DType::f32, bytes, 1, Place::out, Launch::graph},
                           bytes / 4);
  }
}

TEST_F(OnGpu, AllReduceInPlaceOfOneRankIsUnsupported) {
  const auto work = device_->prepare(CollectiveSpec{CollectiveOp::all_reduce, DType::f32, 4096, 1, Place::in});
  EXPECT_THROW(work->connect(group_), Unsupported);
}

TEST_F(OnGpu, CollectivesOfOneRank) {
  for (const auto op : {CollectiveOp::all_gather, CollectiveOp::reduce_scatter, CollectiveOp::alltoall,
                        CollectiveOp::broadcast, CollectiveOp::reduce, CollectiveOp::sendrecv}) {
    for (const std::size_t bytes : {std::size_t{4}, std::size_t{1004}, std::size_t{16} << 20}) {
      expect_work_is_checked(CollectiveSpec{op, DType::f32, bytes}, bytes / 4);
    }
  }
}

TEST_F(OnGpu, ExchangesUnequalPartsOfOneRank) {
  for (const std::size_t bytes : {std::size_t{4}, std::size_t{1004}, std::size_t{16} << 20}) {
    expect_work_is_checked(ExchangeSpec{bytes, 1, 2}, bytes / 4);
  }
}

TEST_F(OnGpu, MultipliesAndCopiesAtTheSameTime) {
  expect_work_is_checked(BurnSpec{{DType::bf16, 1024, 1024, 1024}, Engine::ce, std::size_t{16} << 20}, 1);
}

TEST_F(OnGpu, ExchangesTokensWithExpertsOfOneRank) {
  for (const auto op : {MoeOp::dispatch, MoeOp::combine}) {
    for (const std::size_t tokens : {std::size_t{1}, std::size_t{1001}}) {
      const MoeSpec spec{.op = op, .experts = 16, .top = 3, .hidden = 264, .tokens = tokens};
      expect_work_is_checked(spec, tokens * spec.hidden / 2);
    }
  }
}

TEST_F(OnGpu, RefusesSumsOverTheNetworkAfterOtherSums) {
  CollectiveSpec spec{CollectiveOp::all_reduce, DType::f32, 4096};
  const auto usual = device_->prepare(spec);
  usual->connect(group_);
  spec.via = Via::net;
  const auto over_network = device_->prepare(spec);
  EXPECT_TRUE(contains(message_of([&] { over_network->connect(group_); }), "--benchmark_filter=via:net"));
}

TEST_F(OnGpu, RefusesSymmetricMemoryWhereNcclMayCreateMulticastObjects) {
  CollectiveSpec spec{CollectiveOp::all_reduce, DType::f32, 4096};
  spec.memory = Memory::symmetric;
  setenv("NCCL_NVLS_ENABLE", "1", 1);
  EXPECT_TRUE(contains(message_of([&] { device_->prepare(spec); }), "set NCCL_NVLS_ENABLE=0"));
  unsetenv("NCCL_NVLS_ENABLE");
}

TEST_F(OnGpu, AnAbortedCommunicatorThrowsInsteadOfHanging) {
  const auto work = device_->prepare(CollectiveSpec{CollectiveOp::all_reduce, DType::f32, 4096});
  work->connect(group_);
  device_->abort();
  device_->abort();
  EXPECT_TRUE(contains(message_of([&] { device_->seconds(*work, 1); }), "aborted"));
}

TEST_F(OnGpu, CollectivesOfOtherTypesAreUnsupported) {
  EXPECT_THROW(device_->prepare(CollectiveSpec{CollectiveOp::reduce, DType::f64, 4096}), Unsupported);
  EXPECT_THROW(device_->prepare(CollectiveSpec{CollectiveOp::all_gather, DType::f32, 6}), std::invalid_argument);
}

}  // namespace
}  // namespace shakedown::cuda
