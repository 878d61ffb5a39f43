// A training state in the memory of the host: the same steps as one in the memory of the device, in less of it.
#include <gtest/gtest.h>

#include <string>

#include "base/files.hpp"
#include "tests/kernels/transformer/checked_step.hpp"
#include "tests/kernels/transformer/host_step.hpp"
#include "tests/kernels/transformer/ranks.hpp"

namespace shakedown::host_state_test {
namespace {

using training::StateMemory;
using training::StepShape;

StepShape on_host(StepShape shape) {
  shape.state = StateMemory::host;
  return shape;
}

template <class T>
void expect_same_steps(const StepShape& shape) {
  HostStep<T> device(shape), host(on_host(shape));
  for (int i = 0; i < 20; ++i) {
    device.step.run({.lr = 1e-3});
    host.step.run({.lr = 1e-3});
  }
  const auto want = device.step.records(), got = host.step.records();
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i].loss, want[i].loss) << i;
    EXPECT_EQ(got[i].updated.checksum, want[i].updated.checksum) << i;
  }
  EXPECT_LT(got.back().loss, got.front().loss);
  EXPECT_EQ(host.parameters(), device.parameters());
}

TEST(AStateOnTheHost, GivesTheStepsOfOneOnTheDevice) {
  auto in_bf16 = qwen2_shape();
  in_bf16.masters = DType::bf16;
  for (const auto& shape : {gpt2_shape(), encoder_shape(), qwen2_shape()}) expect_same_steps<double>(shape);
  expect_same_steps<float>(in_bf16);
}

TEST(AStateOnTheHost, TakesMastersAndMomentsFromTheMemoryOfTheDevice) {
  const auto slice = [](std::size_t bytes) { return (bytes + 255) / 256 * 256; };
  for (const auto masters : {DType::f32, DType::bf16}) {
    auto shape = qwen2_shape();
    shape.masters = masters;
    HostStep<float> device(shape), host(on_host(shape));
    const auto arrays =
        masters == DType::f32 ? 3 * slice(4 * host.step.gradients()) : 2 * slice(4 * host.step.gradients());
    EXPECT_EQ(device.step.host_bytes(), 0U);
    EXPECT_EQ(host.step.host_bytes(), arrays);
    EXPECT_EQ(host.step.bytes() + host.step.host_bytes(), device.step.bytes());
    const auto plan = training::plan(on_host(shape), 4, 4, host.ops.workspace_bytes());
    EXPECT_EQ(plan.bytes, host.step.bytes());
    EXPECT_EQ(plan.host_bytes, host.step.host_bytes());
  }
  const TrainStepSpec spec{.model = "qwen2_7b", .batch = 1, .seq = 4096, .state = StateMemory::host};
  EXPECT_EQ(key(spec), "train_step/model:qwen2_7b/batch:1/seq:4096/state:host");
  EXPECT_LT(footprint(spec), 75e9) << "does not fit on a GPU with 80 GB";
  EXPECT_NEAR(static_cast<double>(training::planned(spec).host_bytes), 12 * 7.616e9, 0.1e9);
}

TEST(AStateOnTheHost, IsForWholeModels) {
  const auto why = input_error_of(
      [] { static_cast<void>(footprint(LoraStepSpec{.model = "tiny", .seq = 16, .state = StateMemory::host})); });
  EXPECT_TRUE(why.starts_with("state:host")) << why;
  EXPECT_EQ(with(TrainStepSpec{.model = "tiny"}, "state:host").state, StateMemory::host);
  EXPECT_NE(input_error_of([] { with(TrainStepSpec{.model = "tiny"}, "state:disk"); }), "");
}

/// A measurement has the golden losses of a state on the device, and finds a changed parameter.
TEST(AStateOnTheHost, IsCheckedThroughTheSeam) {
  expect_checked_through_the_seam(
      {.model = "gpt2_tiny", .batch = 2, .seq = 16, .dtype = DType::f32, .state = StateMemory::host});
}

}  // namespace
}  // namespace shakedown::host_state_test
