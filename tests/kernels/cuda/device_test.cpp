// The CUDA backend on one GPU. Compares known data and checks with references computed on the CPU. Then runs every Work
// through the Device interface, with poisoned outputs, at even and ragged sizes. Copies between GPUs need several
// processes and are not tested here. collectives_test.cpp tests collectives, gemm_test.cpp products.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backends.hpp"
#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/known_data.hpp"
#include "kernels/cuda/peer_memory.hpp"
#include "kernels/cuda/tuner.hpp"
#include "kernels/ops/collective.hpp"
#include "kernels/ops/copy.hpp"
#include "kernels/ops/gemm.hpp"
#include "kernels/reference.hpp"
#include "tests/kernels/cuda/on_gpu.hpp"

namespace shakedown::cuda {
namespace {

// Without a GPU ------------------------------------------------------------------------------------------------------

TEST(CudaCheck, SuccessIsSilent) {
  EXPECT_NO_THROW(check(cudaSuccess));
  EXPECT_NO_THROW(check(CUBLAS_STATUS_SUCCESS));
  EXPECT_NO_THROW(check(ncclSuccess));
}

TEST(CudaCheck, AnErrorNamesTheCallerAndTheLibrarysText) {
  const auto cuda = message_of([] { check(cudaErrorInvalidValue); });
  EXPECT_TRUE(contains(cuda, "cuda/device_test.cpp:"));
  EXPECT_TRUE(contains(cuda, "invalid argument (cudaErrorInvalidValue, 1)"));
  const auto blas = message_of([] { check(CUBLAS_STATUS_NOT_SUPPORTED); });
  EXPECT_TRUE(contains(blas, "cuda/device_test.cpp:"));
  EXPECT_TRUE(contains(blas, "(CUBLAS_STATUS_NOT_SUPPORTED, 15)"));
  const auto nccl = message_of([] { check(ncclInvalidArgument); });
  EXPECT_TRUE(contains(nccl, "cuda/device_test.cpp:"));
  EXPECT_TRUE(contains(nccl, "invalid argument"));
}

TEST(CudaProbe, SaysWhyThereIsNoDevice) {
  const auto available = probe();
  EXPECT_EQ(available.devices == 0, !available.reason.empty());
  if (available.devices == 0) {
    EXPECT_EQ(message_of([] { open_device({}); }), available.reason);
  }
}

TEST(CudaPlacement, OneRankPerGpu) {
  const auto ordinal = [](int local_rank, int local_size, int visible) {
    Placement placement;
    placement.local_rank = local_rank;
    placement.local_size = local_size;
    return ordinal_for(placement, visible);
  };
  EXPECT_EQ(ordinal(0, 1, 1), 0);
  EXPECT_EQ(ordinal(0, 1, 8), 0);
  EXPECT_EQ(ordinal(7, 8, 8), 7);
  EXPECT_EQ(ordinal(2, 3, 8), 2);
  EXPECT_EQ(ordinal(7, 8, 1), 0);  // each rank sees only its own GPU
  EXPECT_NE(message_of([&] { ordinal(0, 8, 4); }).find(" 4 visible GPUs;"), std::string::npos);
}

TEST(CudaWords, TheLastWordKeepsThePoisonBehindTheEnd) {
  const WordPattern whole{16, 3};
  EXPECT_EQ(whole.words(), 2U);
  EXPECT_EQ(whole.at(1), reference::copy_word(1, 3));
  const WordPattern ragged{11, 3};
  EXPECT_EQ(ragged.words(), 2U);
  EXPECT_EQ(ragged.at(0), reference::copy_word(0, 3));
  EXPECT_EQ(ragged.at(1), (reference::copy_word(1, 3) & 0xffffff) | 0xa5a5a5a5a5000000ULL);
}

// On a GPU -----------------------------------------------------------------------------------------------------------

TEST_F(OnGpu, FactsAreComplete) {
  const auto info = device_->info();
  EXPECT_FALSE(info.name.empty());
  ASSERT_TRUE(info.uuid);
  EXPECT_EQ(info.uuid->size(), 40U);
  EXPECT_EQ(info.uuid->substr(0, 4), "GPU-");
  ASSERT_TRUE(info.pci);
  EXPECT_EQ(info.pci->size(), 12U);  // 0000:1b:00.0
  EXPECT_GT(info.memory_bytes.value_or(0), std::size_t{1} << 30);
  for (const auto* library : {"cuda", "cublaslt", "nccl"}) EXPECT_FALSE(info.versions.at(library).empty()) << library;
  for (const auto& [name, version] : info.versions) RecordProperty(name, version);
  EXPECT_TRUE(info.multicast.has_value());
  if (info.nvls) {
    EXPECT_TRUE(info.nvls == "on" || info.nvls == "off");
  }
}

TEST_F(OnGpu, WordsAreThoseOfTheReference) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{8}, std::size_t{4097}, std::size_t{1} << 22}) {
    const WordPattern pattern{bytes, 5};
    const Buffer buffer(pattern.words() * 8);
    const View part = View(buffer).part(0, bytes);
    fill_words(*gpu_, part, pattern.source);
    const auto words = download<std::uint64_t>(buffer);
    for (std::size_t i = 0; i < words.size(); ++i) ASSERT_EQ(words[i], pattern.at(i)) << i;
    const auto tally = count_wrong(*gpu_, part, pattern);
    EXPECT_EQ(tally.compared, pattern.words());
    EXPECT_EQ(tally.mismatched, 0U);
    EXPECT_EQ(tally.first, no_index);
  }
}

TEST_F(OnGpu, TheFirstOfSeveralWrongWordsIsFound) {
  const WordPattern pattern{std::size_t{1} << 22, 1};
  const Buffer buffer(pattern.bytes);
  fill_words(*gpu_, buffer, pattern.source);
  const std::uint64_t wrong = 0;
  for (const std::size_t i : {500000U, 77U, 300000U}) gpu_->write(buffer.at(8 * i), &wrong, 8);
  const auto tally = count_wrong(*gpu_, buffer, pattern);
  EXPECT_EQ(tally.mismatched, 3U);
  EXPECT_EQ(tally.first, 77U);
}

TEST_F(OnGpu, TheTunerPicksTheFasterCandidateAndSkipsThoseThatDoNotRun) {
  const Buffer source(std::size_t{64} << 20), target(std::size_t{64} << 20);
  const auto run = [&](std::size_t i) {
    if (i == 0) return false;
    const std::size_t bytes = i == 2 ? source.bytes() / 4 : source.bytes();
    check(cudaMemcpyAsync(target.data(), source.data(), bytes, cudaMemcpyDeviceToDevice, gpu_->stream()));
    return true;
  };
  EXPECT_EQ(pick_fastest(*gpu_, 4, run, {0.2}), 2U);
  EXPECT_EQ(pick_fastest(*gpu_, 4, run, {.seconds = 0.2, .sustained = 0.01}), 2U);
  EXPECT_EQ(pick_fastest(*gpu_, 4, run, {.seconds = 0.2, .bursts = Bursts{1e-3, 1e-3}}), 2U);
  EXPECT_EQ(pick_fastest(*gpu_, 1, run, {0.2}), std::nullopt);
}

// Works through the Device interface ---------------------------------------------------------------------------------

TEST_F(OnGpu, WhatDoesNotFitSaysHowMuchIsMissing) {
  const auto huge = std::size_t{1} << 50;
  for (const auto& text : {message_of([&] {
                             device_->prepare(HbmSpec{HbmOp::copy, Engine::sm, huge});
                           }),
                           message_of([&] {
                             device_->prepare(CollectiveSpec{CollectiveOp::all_reduce, DType::f32, huge});
                           }),
                           message_of([&] {
                             device_->prepare(GemmSpec{DType::bf16, 400000, 400000, 400000});
                           })}) {
    EXPECT_TRUE(contains(text, "needs "));
    EXPECT_TRUE(contains(text, " GB free"));
  }
  EXPECT_THROW(device_->prepare(HbmSpec{HbmOp::copy, Engine::sm, huge}), Unsupported);
  EXPECT_GT(device_->prepare(HbmSpec{HbmOp::copy, Engine::sm, 4096})->bytes(), 0U);  // the device is still usable
}

// A process cannot map its own handle. The error is the same as for a GPU that its peers cannot reach.
TEST_F(OnGpu, MemoryThatThePeerCannotMapIsUnsupportedAndSaysWhichCallFailed) {
  {
    PeerMemory memory(*gpu_, std::size_t{2} << 20);
    const auto text = message_of([&] { memory.exchange(group_.on_host(), 0); });
    EXPECT_TRUE(contains(text, "local rank 0: cudaIpcOpenMemHandle: "));
    EXPECT_TRUE(contains(text, "CUDA IPC needs every rank to see both GPUs"));
  }
  expect_work_is_checked(HbmSpec{HbmOp::copy, Engine::sm, 4096}, 512);  // the device is still usable
}

TEST_F(OnGpu, WhatThisBackendDoesNotDoIsUnsupported) {
  EXPECT_THROW(device_->prepare(HbmSpec{HbmOp::copy, Engine::cpu, 4096}), Unsupported);
  EXPECT_THROW(device_->prepare(CollectiveSpec{CollectiveOp::all_reduce, DType::f64, 4096}), Unsupported);
  EXPECT_THROW(device_->prepare(PeerCopySpec{CopyOp::read, Engine::ce, 0, 1, 4096}), Unsupported);  // only one rank
  EXPECT_THROW(device_->prepare(PeerCopySpec{CopyOp::read, Engine::ce, 0, 0, 4096}), std::invalid_argument);
  EXPECT_THROW(device_->prepare(PeerShiftSpec{CopyOp::read, Engine::ce, 1, 4096}), Unsupported);
  EXPECT_THROW(device_->prepare(PeerLatencySpec{Engine::sm, 0, 1, 4096}), Unsupported);
  EXPECT_THROW(device_->prepare(CollectiveSpec{CollectiveOp::all_reduce, DType::f32, 6}), std::invalid_argument);
}

}  // namespace
}  // namespace shakedown::cuda

/// Exit code 77 tells CTest that the GPU part was skipped.
int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  const auto available = shakedown::cuda::probe();
  if (failed != 0 || available.devices > 0) return failed;
  std::printf("SKIP: what needs a GPU: %s\n", available.reason.c_str());
  return 77;
}
