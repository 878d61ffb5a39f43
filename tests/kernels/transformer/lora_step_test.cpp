// The training step on the host. Compares its gradients with finite differences of its loss. Then tests all variants
// that must not change the result: the fusion of adapters, stored or recomputed activations, the split of a batch, the
// number of threads.
#include <gtest/gtest.h>

#include <cmath>

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
