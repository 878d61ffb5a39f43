// The training step on the host. Compares its gradients with finite differences of its loss. Then tests all variants
// that must not change the result: the fusion of adapters, stored or recomputed activations, the split of a batch, the
// number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "base/statistics.hpp"
#include "tests/kernels/transformer/gradients.hpp"

namespace shakedown::lora_step_test {
namespace {

using training::AdamW;
using training::AdapterPath;
using training::Retain;

TEST(LoraStep, HasTheGradientThatDifferencesOfTheLossShow) { expect_gradients_match_differences(ragged_shape()); }

TEST(LoraStep, HasTheGradientOfTheAdaptersThatThereAre) {
  auto shape = ragged_shape();
  shape.lora.adapted = {true, false, true, false, true, false, true};
  expect_gradients_match_differences(shape);
  shape.lora.adapted = {true, true, true, true, false, false, false};
  expect_gradients_match_differences(shape);
  shape.path = AdapterPath::separate;
  expect_gradients_match_differences(shape);
}

TEST(LoraStep, GivesTheSameHoweverTheAdaptersJoin) {
  auto shape = ragged_shape();
  HostStep<double> augmented(shape);
  shape.path = AdapterPath::separate;
  HostStep<double> separate(shape);
  EXPECT_NEAR(augmented.loss(), separate.loss(), 1e-13);
  EXPECT_LT(distance(augmented.gradient(), separate.gradient()), 1e-13);
}

training::StepShape quantized_shape() {
  auto shape = ragged_shape();
  shape.quantized = true;
  return shape;
}

/// Larger weights would make a softmax so sharp that it amplifies rounding.
constexpr double calm = 0.1;

TEST(LoraStep, WithQuantizedProductsIsNearTheExactStep) {
  HostStep<float> exact(ragged_shape()), quantized(quantized_shape());
  for (auto* const host : {&exact, &quantized}) {
    set_lively_weights(host->step, host->ops, calm);
    host->load(batch_of(ragged_shape()));
  }
  EXPECT_NEAR(quantized.loss(), exact.loss(), 0.02 * exact.loss());
  EXPECT_NE(quantized.loss(), exact.loss());
  const auto got = quantized.gradient(), want = exact.gradient();
  std::vector<double> cosines;
  for (const auto& t : exact.step.tensors()) {
    double product = 0, got_squares = 0, want_squares = 0;
    for (auto i = t.offset; i < t.end(); ++i) {
      product += static_cast<double>(got[i]) * static_cast<double>(want[i]);
      got_squares += std::pow(static_cast<double>(got[i]), 2);
      want_squares += std::pow(static_cast<double>(want[i]), 2);
    }
    cosines.push_back(product / std::sqrt(got_squares * want_squares));
  }
  EXPECT_GE(median(cosines), 0.99);
  EXPECT_GE(*std::min_element(cosines.begin(), cosines.end()), 0.95);
}

TEST(LoraStep, WithQuantizedProductsLearnsAsTheExactStep) {
  HostStep<float> exact(ragged_shape()), quantized(quantized_shape());
  for (auto* const host : {&exact, &quantized}) {
    set_lively_weights(host->step, host->ops, calm);
    host->load(batch_of(ragged_shape()));
    for (int i = 0; i < 20; ++i) host->step.run(AdamW{.lr = 0.003});
  }
  const auto got = quantized.step.records(), want = exact.step.records();
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i].loss, want[i].loss, 0.02 * want[i].loss) << i;
  EXPECT_LT(got.back().loss, 0.95 * got.front().loss);
}

TEST(LoraStep, WithQuantizedProductsGivesTheSameBitsHoweverMuchIsKept) {
  std::optional<std::uint64_t> checksum;
  for (const auto retain : {Retain::all, Retain::rebuild, Retain::inputs}) {
    auto shape = quantized_shape();
    shape.retain = retain;
    HostStep<float> host(shape);
    for (int i = 0; i < 3; ++i) host.step.run(AdamW{.lr = 0.01});
    const auto now = host.step.parameter_summary().checksum;
    EXPECT_EQ(checksum.value_or(now), now) << static_cast<int>(retain);
    checksum = now;
    const auto good = host.step.check_quantized_products();
    EXPECT_TRUE(good.passed()) << good.first;
  }
}

TEST(LoraStep, FindsWrongQuantizedWeights) {
  HostStep<float> host(quantized_shape());
  host.loss();
  const auto mismatches = [&] { return host.step.check_quantized_products().mismatched; };
  EXPECT_EQ(mismatches(), 0U);
  for (const auto linear : training::linears) {
    const auto& layer = host.step.buffers().layers[0];
    const auto at = static_cast<std::size_t>(linear);
    for (const auto& rows : {layer.quantized[at], layer.transposed[at]}) {
      // The first and the last row are compared with the host.
      auto &first = rows.scales[0], &last = rows.scales[rows.values.rows - 1];
      const float good = first;
      first *= 1.5F;
      EXPECT_GT(mismatches(), 0U) << "wrong factor";
      first = good;
      std::swap(first, last);
      EXPECT_GT(mismatches(), 0U) << "swapped factors";
      host.step.restart();
      rows.values.data[3] ^= 1;
      EXPECT_GT(mismatches(), 0U) << "wrong bit";
      rows.values.data[3] ^= 1;
      EXPECT_EQ(mismatches(), 0U);
    }
  }
}

TEST(LoraStep, QuantizesFrozenWeightsTogetherWithTheirAdaptersOnly) {
  auto shape = quantized_shape();
  shape.path = AdapterPath::separate;
  EXPECT_THROW(check(shape), std::invalid_argument);
}

TEST(LoraStep, GivesTheSameBitsHoweverMuchIsKept) {
  for (const auto path : {AdapterPath::augmented, AdapterPath::separate}) {
    auto shape = ragged_shape();
    shape.path = path;
    shape.retain = Retain::all;
    HostStep<float> all(shape);
    shape.retain = Retain::rebuild;
    HostStep<float> rebuild(shape);
    shape.retain = Retain::inputs;
    HostStep<float> inputs(shape);
    for (int i = 0; i < 3; ++i) {
      for (auto* const host : {&all, &rebuild, &inputs}) host->step.run(AdamW{.lr = 0.01});
    }
    EXPECT_EQ(rebuild.step.parameter_summary().checksum, all.step.parameter_summary().checksum);
    EXPECT_EQ(inputs.step.parameter_summary().checksum, all.step.parameter_summary().checksum);
    EXPECT_GT(all.step.bytes(), rebuild.step.bytes());
    EXPECT_GT(rebuild.step.bytes(), inputs.step.bytes());
  }
}

TEST(LoraStep, GivesTheSameHoweverTheBatchIsCut) {
  auto shape = ragged_shape();
  HostStep<double> whole(shape);
  shape.batch = 1;
  shape.accumulation = 2;
  HostStep<double> cut(shape);
  EXPECT_NEAR(cut.loss(), whole.loss(), 1e-13);
  EXPECT_LT(distance(cut.gradient(), whole.gradient()), 1e-12);
}

TEST(LoraStep, GivesTheSameBitsWithAnyNumberOfThreadsAndBuckets) {
  auto shape = ragged_shape();
  shape.bucket = 1 << 20;
  HostStep<double> one(shape, 1);
  shape.bucket = 1;
  shape.loss_chunk = 14;
  HostStep<double> three(shape, 3);
  EXPECT_EQ(one.gradient(), three.gradient());
  EXPECT_EQ(one.step.buckets(), 1u);
  EXPECT_EQ(three.step.buckets(), 3u);  // one before the attention of each layer, and one for the rest
  EXPECT_EQ(one.step.records().front().local.checksum, three.step.records().front().local.checksum);
}

TEST(LoraStep, SeesNoPositionAfterItsOwn) {
  HostStep<double> host(ragged_shape());
  auto batch = batch_of(host.step.shape());
  host.loss();
  const std::vector<double> before(host.step.buffers().losses, host.step.buffers().losses + 14);
  batch.inputs[3] = (batch.inputs[3] + 1) % 61;
  host.load(batch);
  host.loss();
  const auto* const after = host.step.buffers().losses;
  for (std::size_t i = 0; i < 14; ++i) {
    if (i >= 3 && i < 7) {
      EXPECT_NE(after[i], before[i]) << i;
    } else {
      EXPECT_EQ(after[i], before[i]) << i;
    }
  }
}

TEST(LoraStep, StartsNearTheLogOfTheVocabularyAndLearnsARepeatedBatch) {
  const auto p = training::preset("tiny");
  const training::StepShape shape{.model = p.model, .lora = p.lora, .batch = 2, .seq = 16};
  HostStep<float> host(shape);
  host.step.initialize();
  host.load(batch_of(shape));
  for (int i = 0; i < 10; ++i) host.step.run(AdamW{.lr = 2e-3});
  const auto& records = host.step.records();
  ASSERT_EQ(records.size(), 10u);
  EXPECT_NEAR(records.front().loss, training::expected_first_loss(shape.model), 0.02);
  for (std::size_t i = 1; i < records.size(); ++i) EXPECT_LT(records[i].loss, records[i - 1].loss);
}

TEST(LoraStep, KeepsTheRecordsOfAnyNumberOfSteps) {
  HostStep<float> host(ragged_shape());
  for (std::size_t i = 0; i < training::records_kept + 3; ++i) host.step.run(no_update());
  const auto& records = host.step.records();
  ASSERT_EQ(records.size(), training::records_kept + 3);
  EXPECT_EQ(records.front().loss, records.back().loss);
  EXPECT_EQ(records.front().reduced.checksum, records.back().reduced.checksum);
}

TEST(LoraStep, SkipsTheUpdateWhenAValueIsNotFinite) {
  HostStep<double> host(ragged_shape());
  host.step.run(AdamW{});
  const auto before = host.step.parameter_summary();
  const auto moments = host.step.buffers().state.first_moment[0];
  host.step.buffers().layers[1].norm2.gain[5] = std::numeric_limits<double>::quiet_NaN();
  host.step.run(AdamW{});
  const auto after = host.step.parameter_summary();
  EXPECT_GT(host.step.records().back().reduced.non_finite, 0u);
  EXPECT_FALSE(std::isfinite(host.step.records().back().loss));
  EXPECT_EQ(after.checksum, before.checksum);
  EXPECT_EQ(after.non_finite, 0u);
  EXPECT_EQ(host.step.buffers().state.first_moment[0], moments);
}

TEST(LoraStep, AllocatesWhatWasPlanned) {
  for (const auto retain : {Retain::all, Retain::rebuild, Retain::inputs}) {
    auto shape = ragged_shape();
    shape.retain = retain;
    HostStep<double> host(shape);
    EXPECT_EQ(host.step.bytes(), training::plan(shape, 8, 8, host.ops.workspace_bytes()).bytes);
  }
}

TEST(LoraStep, RefusesABatchOfAnotherSize) {
  HostStep<float> host(ragged_shape());
  EXPECT_THROW(host.load({{1, 2, 3}, {1, 2, 3}}), std::invalid_argument);
}

}  // namespace
}  // namespace shakedown::lora_step_test
