// The forward pass of a layer on the host: its check, its cost, and the loss of accuracy by 8-bit floats.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <tuple>

#include "base/group.hpp"
#include "kernels/device.hpp"
#include "kernels/transformer/layer_spec.hpp"

namespace shakedown::layer_test {
namespace {

TEST(Layer, HasTheKeyAndTheOperationsOfTheBenchmark) {
  LayerSpec spec{.model = "h8192", .dtype = DType::fp8_e4m3, .batch = 32, .seq = 4096};
  EXPECT_EQ(key(spec), "layer/model:h8192/dtype:fp8/batch:32/seq:4096");
  // 24 hidden^2 of the products, and 2 seq hidden of causal attention, for each token.
  EXPECT_NEAR(cost(spec).flops / 131072 / 1e9, 24 * 8192.0 * 8192 / 1e9 + 2 * 4096 * 8192.0 / 1e9, 1e-9);
  spec.causal = false;
  spec.dtype = DType::bf16;
  EXPECT_EQ(key(spec), "layer/model:h8192/dtype:bf16/batch:32/seq:4096/mask:none");
  EXPECT_NEAR(cost(spec).flops / 131072 / 1e9, 24 * 8192.0 * 8192 / 1e9 + 4 * 4096 * 8192.0 / 1e9, 1e-9);
  EXPECT_LT(static_cast<double>(footprint(spec)), 60e9) << "fits on a GPU of 80 GB";
  spec.model = "h9";
  EXPECT_THROW(cost(spec), std::invalid_argument);
}

class HostLayer : public testing::TestWithParam<std::tuple<DType, bool>> {
 protected:
  std::unique_ptr<Work> ready() {
    const auto [dtype, causal] = GetParam();
    auto work = device_->prepare(LayerSpec{.model = "h64", .dtype = dtype, .batch = 3, .seq = 7, .causal = causal});
    work->connect(group_);
    work->reset();
    return work;
  }

  std::unique_ptr<Device> device_ = open_device(Backend::host, {.threads = 2});
  Alone group_;
};
INSTANTIATE_TEST_SUITE_P(Types, HostLayer,
                         testing::Combine(testing::Values(DType::f32, DType::f64, DType::fp8_e4m3), testing::Bool()));

TEST_P(HostLayer, IsCheckedTokenByToken) {
  const auto work = ready();
  EXPECT_FALSE(work->verify().passed()) << "nothing ran, but the check passed";
  work->stage(1);
  EXPECT_GT(device_->seconds(*work, 1), 0);
  const auto good = work->verify();
  EXPECT_TRUE(good.passed()) << good.mismatched << " of " << good.compared << ": " << good.first;
  EXPECT_GT(good.compared, 4U * 64 * 10);
  const auto digest = work->digest();
  const auto metrics = work->metrics();
  ASSERT_EQ(metrics.size(), 4U);
  EXPECT_EQ(metrics[0].first, "checksum");
  for (std::size_t i = 1; i < metrics.size(); ++i) EXPECT_GT(metrics[i].second, 0) << metrics[i].first;
  work->stage(1);
  EXPECT_FALSE(work->verify().passed()) << "an operation that did not run was not seen";
  device_->seconds(*work, 1);
  EXPECT_EQ(work->digest(), digest) << "equal inputs give equal bits";
  EXPECT_EQ(work->metrics()[0], metrics[0]);
  work->corrupt();
  EXPECT_NE(work->digest(), digest);
  const auto bad = work->verify();
  EXPECT_EQ(bad.mismatched, 1U);
  EXPECT_NE(bad.first.find("expected"), std::string::npos);
  EXPECT_NE(work->metrics()[0], metrics[0]);
}

TEST_P(HostLayer, MustBeFiniteInEveryToken) {
  const auto work = ready();
  work->poison_input();
  work->stage(1);
  device_->seconds(*work, 1);
  const auto bad = work->verify();
  EXPECT_FALSE(bad.passed()) << "a token that is not sampled may be NaN";
  const auto [dtype, causal] = GetParam();
  if (causal) {
    EXPECT_EQ(bad.first, "element 1344 is 64, expected 0") << "number of values that are not finite";
  }
}

TEST(Layer, IsRefusedInTypesThatTheHostDoesNotHave) {
  const auto device = open_device(Backend::host, {});
  EXPECT_THROW(device->prepare(LayerSpec{.model = "h64", .dtype = DType::bf16, .batch = 1, .seq = 4}), Unsupported);
}

}  // namespace
}  // namespace shakedown::layer_test
