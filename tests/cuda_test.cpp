// The CUDA backend on one GPU: known data and the checks against the references computed on the CPU, then every Work
// through the seam, with poisoned outputs, at even and at ragged sizes. Copies between GPUs need several processes and
// are not tested here.
#include <cuda_bf16.h>
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
#include "kernels/cuda/data.hpp"
#include "kernels/cuda/gemm_check.hpp"
#include "kernels/cuda/gpu.hpp"
#include "kernels/cuda/tuner.hpp"
#include "kernels/reference.hpp"
#include "tests/on_gpu.hpp"

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
  EXPECT_TRUE(contains(cuda, "tests/cuda_test.cpp:"));
  EXPECT_TRUE(contains(cuda, "invalid argument (cudaErrorInvalidValue, 1)"));
  const auto blas = message_of([] { check(CUBLAS_STATUS_NOT_SUPPORTED); });
  EXPECT_TRUE(contains(blas, "tests/cuda_test.cpp:"));
  EXPECT_TRUE(contains(blas, "(CUBLAS_STATUS_NOT_SUPPORTED, 15)"));
  const auto nccl = message_of([] { check(ncclInvalidArgument); });
  EXPECT_TRUE(contains(nccl, "tests/cuda_test.cpp:"));
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
  EXPECT_EQ(ordinal(7, 8, 1), 0);  // each rank sees its own GPU only
  EXPECT_EQ(message_of([&] { ordinal(0, 8, 4); }),
            "8 ranks on this host but only 4 visible GPUs; start one rank per GPU (mpirun -np 4 ...), or let each rank "
            "see only its own GPU");
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

TEST(CudaGemmCheck, SampledRowsAreDifferentAndInside) {
  for (const int m : {1, 2, 7, 8, 9, 100, 16384}) {
    const auto rows = sample_rows(m);
    ASSERT_EQ(rows.count, std::min(m, 8));
    for (int r = 0; r < rows.count; ++r) {
      EXPECT_LT(rows.index[r], m);
      EXPECT_GT(rows.index[r], r == 0 ? -1 : rows.index[r - 1]);
    }
  }
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
  if (info.nccl.contains("nvls")) {
    EXPECT_TRUE(info.nccl.at("nvls") == "on" || info.nccl.at("nvls") == "off");
  }
}

TEST_F(OnGpu, WordsAreThoseOfTheReference) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{8}, std::size_t{4097}, std::size_t{1} << 22}) {
    const WordPattern pattern{bytes, 5};
    const Buffer buffer(pattern.words() * 8);
    write_words(gpu_->stream(), buffer.data<std::uint64_t>(), pattern);
    const auto words = download<std::uint64_t>(buffer);
    for (std::size_t i = 0; i < words.size(); ++i) ASSERT_EQ(words[i], pattern.at(i)) << i;
    count_wrong_words(gpu_->stream(), buffer.data<const std::uint64_t>(), pattern, gpu_->start_tally());
    const auto tally = gpu_->finish_tally();
    EXPECT_EQ(tally.compared, pattern.words());
    EXPECT_EQ(tally.mismatched, 0U);
    EXPECT_EQ(tally.first, no_index);
  }
}

TEST_F(OnGpu, TheFirstOfSeveralWrongWordsIsFound) {
  const WordPattern pattern{std::size_t{1} << 22, 1};
  const Buffer buffer(pattern.bytes);
  write_words(gpu_->stream(), buffer.data<std::uint64_t>(), pattern);
  const std::uint64_t wrong = 0;
  for (const std::size_t i : {500000U, 77U, 300000U}) gpu_->write(buffer.at(8 * i), &wrong, 8);
  count_wrong_words(gpu_->stream(), buffer.data<const std::uint64_t>(), pattern, gpu_->start_tally());
  const auto tally = gpu_->finish_tally();
  EXPECT_EQ(tally.mismatched, 3U);
  EXPECT_EQ(tally.first, 77U);
}

TEST_F(OnGpu, AddendsAreThoseOfTheReference) {
  const std::size_t count = 100003;
  const Buffer buffer(count * sizeof(float));
  write_addends(gpu_->stream(), buffer.data<float>(), count, 21);
  const auto values = download<float>(buffer);
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(values[i], static_cast<float>(reference::addend(i, 21))) << i;

  std::vector<float> sums(count);
  for (std::size_t i = 0; i < count; ++i) sums[i] = static_cast<float>(reference::addend_sum(i, 37));
  sums[4] = std::nanf("");
  sums[99999] += 1;
  const auto uploaded = upload(sums);
  count_wrong_sums(gpu_->stream(), uploaded.data<const float>(), count, 37, gpu_->start_tally());
  const auto tally = gpu_->finish_tally();
  EXPECT_EQ(tally.compared, count);
  EXPECT_EQ(tally.mismatched, 2U);
  EXPECT_EQ(tally.first, 4U);
}

TEST_F(OnGpu, NormalIsThatOfTheReference) {
  const std::size_t count = 100003;
  const Buffer f32(count * sizeof(float)), bf16(count * sizeof(__nv_bfloat16));
  write_normal(gpu_->stream(), f32.data(), DType::f32, count, 2);
  write_normal(gpu_->stream(), bf16.data(), DType::bf16, count, 2);
  const auto singles = download<float>(f32);
  const auto halves = download<__nv_bfloat16>(bf16);
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double want = reference::normal(i, 2);
    // The functions of the two sides may differ in the last bits of a double, and so now and then in one rounding.
    ASSERT_NEAR(singles[i], want, 1e-7 * std::max(1.0, std::abs(want))) << i;
    ASSERT_NEAR(__bfloat162float(halves[i]), want, 0x1p-8 * std::abs(want) * 1.001 + 1e-12) << i;
    sum += want;
    squares += want * want;
  }
  EXPECT_NEAR(sum / count, 0, 0.02);
  EXPECT_NEAR(squares / count, 1, 0.02);
}

TEST_F(OnGpu, TheTunerPicksTheFasterCandidateAndSkipsThoseThatDoNotRun) {
  const Buffer source(std::size_t{64} << 20), target(std::size_t{64} << 20);
  const auto run = [&](std::size_t i) {
    if (i == 0) return false;
    const std::size_t bytes = i == 2 ? source.bytes() / 4 : source.bytes();
    check(cudaMemcpyAsync(target.data(), source.data(), bytes, cudaMemcpyDeviceToDevice, gpu_->stream()));
    return true;
  };
  EXPECT_EQ(pick_fastest(*gpu_, 4, run, 0.2), 2U);
  EXPECT_EQ(pick_fastest(*gpu_, 1, run, 0.2), std::nullopt);
}

// The checks of a product --------------------------------------------------------------------------------------------

/// A small product whose C is computed on the CPU, in f64 and rounded once.
class ProductCheck : public OnGpu {
 protected:
  static constexpr int m = 70, n = 77, k = 53;

  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped()) return;
    for (std::size_t i = 0; i < a_.size(); ++i) a_[i] = static_cast<float>(reference::normal(i, 1));
    for (std::size_t i = 0; i < b_.size(); ++i) b_[i] = static_cast<float>(reference::normal(i, 2));
  }

  void multiply(bool a_by_rows) {
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        double sum = 0;
        for (int l = 0; l < k; ++l) sum += double{a_[at(a_by_rows ? i * k + l : i + l * m)]} * b_[at(l + j * k)];
        c_[at(i + j * m)] = static_cast<float>(sum);
      }
    }
  }

  Tally sampled(bool a_by_rows, unsigned long long report = no_index) {
    return run(a_by_rows, [&](const Product& product, double* scratch) {
      count_wrong_elements(gpu_->stream(), product, sample_rows(m), scratch, gpu_->start_tally(), report);
    });
  }
  Tally signed_sums(bool a_by_rows, unsigned long long report = no_index) {
    return run(a_by_rows, [&](const Product& product, double* scratch) {
      count_wrong_sums_of(gpu_->stream(), product, scratch, gpu_->start_tally(), report);
    });
  }

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  std::vector<float> a_ = std::vector<float>(m * k), b_ = std::vector<float>(k * n), c_ = std::vector<float>(m * n);

 private:
  template <class Count>
  Tally run(bool a_by_rows, const Count& count) {
    const auto a = upload(a_), b = upload(b_), c = upload(c_);
    const Buffer scratch(check_scratch(n, k) * sizeof(double));
    count({DType::f32, a_by_rows, a.data(), b.data(), c.data(), m, n, k, 0x1p-24, 0x1p-24}, scratch.data<double>());
    return gpu_->finish_tally();
  }
};

TEST_F(ProductCheck, ARightProductPasses) {
  for (const bool a_by_rows : {false, true}) {
    multiply(a_by_rows);
    const auto elements = sampled(a_by_rows);
    EXPECT_EQ(elements.compared, 8U * n);
    EXPECT_EQ(elements.mismatched, 0U) << elements.first;
    const auto sums = signed_sums(a_by_rows);
    EXPECT_EQ(sums.compared, static_cast<unsigned>(m * sums_per_row(n)));
    EXPECT_EQ(sums.mismatched, 0U) << sums.first;
  }
}

TEST_F(ProductCheck, OneWrongElementIsFoundWhereItIs) {
  const int row = sample_rows(m).index[3], column = 40;
  for (const bool a_by_rows : {false, true}) {
    for (const float damage : {0.01F, -1e30F, std::nanf(""), HUGE_VALF}) {
      multiply(a_by_rows);
      const float right = c_[at(row + column * m)];
      c_[at(row + column * m)] += damage;
      const auto element_index = static_cast<unsigned long long>(row * n + column);
      const auto elements = sampled(a_by_rows, element_index);
      EXPECT_EQ(elements.mismatched, 1U) << damage;
      EXPECT_EQ(elements.first, element_index);
      EXPECT_NEAR(elements.want, right, 1e-5);
      const auto sums = signed_sums(a_by_rows);
      EXPECT_EQ(sums.mismatched, 1U) << damage;
      EXPECT_EQ(sums.first, static_cast<unsigned long long>(row * sums_per_row(n) + column / sum_width));
    }
  }
}

TEST_F(ProductCheck, AnElementOutsideTheSampleIsFoundByItsSum) {
  const auto rows = sample_rows(m);
  int row = 0;
  while (std::find(rows.index, rows.index + rows.count, row) != rows.index + rows.count) ++row;
  multiply(true);
  c_[at(row + (n - 1) * m)] *= -1;
  EXPECT_EQ(sampled(true).mismatched, 0U);
  EXPECT_EQ(signed_sums(true).mismatched, 1U);
}

TEST_F(ProductCheck, SwappedColumnsAreFound) {
  multiply(true);
  for (int i = 0; i < m; ++i) std::swap(c_[at(i + 3 * m)], c_[at(i + 4 * m)]);
  EXPECT_EQ(sampled(true).mismatched, 16U);
}

// Works through the seam ---------------------------------------------------------------------------------------------

TEST_F(OnGpu, Gemm) {
  for (const auto& spec : {GemmSpec{DType::bf16, 256, 256, 256}, GemmSpec{DType::bf16, 136, 72, 200},
                           GemmSpec{DType::bf16, 8, 1000, 4096}, GemmSpec{DType::f32, 256, 256, 256},
                           GemmSpec{DType::f32, 127, 65, 33}, GemmSpec{DType::bf16, 2048, 2048, 2048}}) {
    const auto sums = static_cast<std::size_t>(spec.m) * static_cast<std::size_t>(sums_per_row(spec.n));
    expect_work_is_checked(spec, sums + 8 * static_cast<std::size_t>(spec.n));
  }
}

TEST_F(OnGpu, GemmOfOddShapeIsRightOrUnsupported) {
  try {
    expect_work_is_checked(GemmSpec{DType::bf16, 127, 65, 33}, 1);
  } catch (const Unsupported& reason) {
    EXPECT_TRUE(contains(reason.what(), "cuBLASLt"));
  }
}

TEST_F(OnGpu, GemmChecksumIsAnIntegerThatJsonCanHold) {
  const auto work = device_->prepare(GemmSpec{DType::bf16, 512, 512, 512});
  work->connect(peers_);
  work->reset();
  device_->seconds(*work, 1);
  const auto metrics = work->metrics();
  ASSERT_EQ(metrics.size(), 1U);
  EXPECT_EQ(metrics[0].first, "checksum");
  EXPECT_EQ(metrics[0].second, std::floor(metrics[0].second));
  EXPECT_LT(metrics[0].second, 0x1p53);
}

TEST_F(OnGpu, AllReduceOfOneRank) {
  for (const std::size_t bytes : {std::size_t{4}, std::size_t{8}, std::size_t{1004}, std::size_t{16} << 20}) {
    expect_work_is_checked(AllReduceSpec{DType::f32, bytes}, bytes / 4);
  }
}

TEST_F(OnGpu, WhatDoesNotFitSaysHowMuchIsMissing) {
  const auto huge = std::size_t{1} << 50;
  for (const auto& text : {message_of([&] {
                             device_->prepare(HbmSpec{HbmOp::copy, Engine::sm, huge});
                           }),
                           message_of([&] {
                             device_->prepare(AllReduceSpec{DType::f32, huge});
                           }),
                           message_of([&] {
                             device_->prepare(GemmSpec{DType::bf16, 400000, 400000, 400000});
                           })}) {
    EXPECT_TRUE(contains(text, "needs "));
    EXPECT_TRUE(contains(text, " GB free"));
  }
  EXPECT_THROW(device_->prepare(HbmSpec{HbmOp::copy, Engine::sm, huge}), Unsupported);
  EXPECT_GT(device_->prepare(HbmSpec{HbmOp::copy, Engine::sm, 4096})->bytes(), 0U);  // the device is still of use
}

TEST_F(OnGpu, WhatThisBackendDoesNotDoIsUnsupported) {
  EXPECT_THROW(device_->prepare(HbmSpec{HbmOp::copy, Engine::cpu, 4096}), Unsupported);
  EXPECT_THROW(device_->prepare(GemmSpec{DType::nvfp4, 128, 128, 128}), Unsupported);
  EXPECT_THROW(device_->prepare(AllReduceSpec{DType::f64, 4096}), Unsupported);
  EXPECT_THROW(device_->prepare(PeerCopySpec{CopyOp::read, Engine::ce, 0, 1, 4096}), Unsupported);  // one rank only
  EXPECT_THROW(device_->prepare(PeerCopySpec{CopyOp::read, Engine::ce, 0, 0, 4096}), std::invalid_argument);
  EXPECT_THROW(device_->prepare(PeerShiftSpec{CopyOp::read, Engine::ce, 1, 4096}), Unsupported);
  EXPECT_THROW(device_->prepare(PeerLatencySpec{Engine::sm, 0, 1, 4096}), Unsupported);
  EXPECT_THROW(device_->prepare(AllReduceSpec{DType::f32, 6}), std::invalid_argument);
  EXPECT_THROW(device_->prepare(GemmSpec{DType::bf16, 0, 128, 128}), std::invalid_argument);
}

TEST_F(OnGpu, AnAbortedCommunicatorThrowsInsteadOfHanging) {
  const auto work = device_->prepare(AllReduceSpec{DType::f32, 4096});
  work->connect(peers_);
  device_->abort();
  device_->abort();
  EXPECT_TRUE(contains(message_of([&] { device_->seconds(*work, 1); }), "aborted"));
}

}  // namespace
}  // namespace shakedown::cuda

/// 77 tells CTest that the part on a GPU was skipped.
int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  const auto available = shakedown::cuda::probe();
  if (failed != 0 || available.devices > 0) return failed;
  std::printf("skipped on a GPU: %s\n", available.reason.c_str());
  return 77;
}
