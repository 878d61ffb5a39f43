// Shared by the tests of the CUDA backend: a fixture that skips without a GPU, and checks that every Work must pass.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "base/group.hpp"
#include "kernels/backends.hpp"
#include "kernels/cuda/gpu.hpp"

namespace shakedown::cuda {

inline std::string message_of(const auto& action) {
  try {
    action();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "nothing was thrown";
}

inline ::testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << '"' << text << "\" does not contain \"" << part << '"';
}

class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto available = probe();
    if (available.devices == 0) GTEST_SKIP() << available.reason;
    device_ = open_device({});
    gpu_ = std::make_unique<Gpu>(0, Placement{});
  }

  template <class T>
  std::vector<T> download(const Buffer& buffer) const {
    std::vector<T> values(buffer.bytes() / sizeof(T));
    gpu_->read(values.data(), buffer.data(), values.size() * sizeof(T));
    return values;
  }
  template <class T>
  Buffer upload(const std::vector<T>& values) const {
    Buffer buffer(values.size() * sizeof(T));
    gpu_->write(buffer.data(), values.data(), buffer.bytes());
    return buffer;
  }

  /// Prepares, runs and checks a Work. Then verifies that its check detects data that were not written or were damaged.
  template <class Spec>
  void expect_work_is_checked(const Spec& spec, std::size_t min_compared) {
    SCOPED_TRACE(key(spec));
    const auto work = device_->prepare(spec);
    work->connect(group_);
    work->reset();
    const Check unwritten = work->verify();
    EXPECT_FALSE(unwritten.passed()) << "poison passed the check";
    EXPECT_FALSE(unwritten.first.empty());

    work->stage(3);
    EXPECT_GT(device_->seconds(*work, 3), 0);
    const Check check = work->verify();
    EXPECT_TRUE(check.passed()) << check.mismatched << " of " << check.compared << " wrong: " << check.first;
    EXPECT_GE(check.compared, min_compared);

    const auto before = results_of(*work);
    const auto digest = work->digest();
    work->corrupt();
    const Check corrupted = work->verify();
    EXPECT_FALSE(corrupted.passed()) << "a damaged element passed the check";
    EXPECT_GE(corrupted.mismatched, 1U);
    EXPECT_LE(corrupted.mismatched, 2U);  // for a product, the element and the sum that contains it
    EXPECT_TRUE(contains(corrupted.first, "expected"));
    if (digest) {
      EXPECT_NE(digest, work->digest()) << "the digest does not see the damage";
    }
    if (!before.empty()) {
      EXPECT_NE(before, results_of(*work)) << "the checksum does not see the damage";
    }

    work->reset();
    work->stage(1);
    EXPECT_GT(device_->seconds(*work, 1), 0);
    EXPECT_TRUE(work->verify().passed());
    EXPECT_EQ(before, results_of(*work)) << "the same inputs gave other bits";
    EXPECT_EQ(digest, work->digest()) << "the same inputs gave other bits";
  }

  /// Returns the metrics of a Work without times and rates.
  static Metrics results_of(Work& work) {
    auto metrics = work.metrics();
    std::erase_if(metrics, [](const auto& metric) {
      const std::string_view name = metric.first;
      return name.ends_with("_ms") || name.ends_with("_per_s") || name.ends_with("tflops");
    });
    return metrics;
  }

  Alone group_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Gpu> gpu_;
};

}  // namespace shakedown::cuda
