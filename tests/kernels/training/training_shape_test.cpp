// The numbers of a training step against constants worked out by hand from the published configuration of Qwen2-7B.
#include <gtest/gtest.h>

#include "kernels/training/buffers.hpp"

namespace shakedown::training {
namespace {

StepShape qwen2_7b_step(std::size_t batch, Retain retain) {
  const auto p = preset("qwen2_7b");
  return {.model = p.model, .lora = p.lora, .batch = batch, .seq = 4096, .retain = retain};
}

double planned_gb(std::size_t batch, Retain retain) {
  return static_cast<double>(plan(qwen2_7b_step(batch, retain), 2, 4, 0).bytes) / 1e9;
}

TEST(TrainingShape, CountsTheParametersOfQwen2) {
  const auto p = preset("qwen2_7b");
  const auto count = parameters(p.model, p.lora);
  EXPECT_EQ(count.total(), 7'615'616'512u);
  EXPECT_EQ(count.linears, 6'525'288'448u);
  EXPECT_EQ(count.head, 544'997'376u);
  EXPECT_EQ(count.adapters, 161'480'704u);
  const auto attention_only = preset("qwen2_7b_attention_only");
  EXPECT_EQ(parameters(attention_only.model, attention_only.lora).adapters, 40'370'176u);
}

TEST(TrainingShape, CountsTheOperationsOfAToken) {
  const auto p = preset("qwen2_7b");
  const auto flops = token_flops(p.model, p.lora, 4096);
  EXPECT_NEAR(flops.linears / 1e9, 26.101, 0.001);
  EXPECT_NEAR(flops.attention / 1e9, 2.877, 0.001);
  EXPECT_NEAR(flops.head / 1e9, 2.180, 0.001);
  EXPECT_NEAR(flops.adapters / 1e9, 0.969, 0.001);
  EXPECT_NEAR(flops.total() / 1e9, 32.13, 0.005);
  EXPECT_NEAR((flops.total() + flops.recomputed) / 1e9, 46.32, 0.005);
}

TEST(TrainingShape, RefusesAModelThatDoesNotExist) {
  try {
    preset("qwen2_8b");
    FAIL() << "there is no such model";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("choose qwen2_7b"), std::string::npos) << error.what();
  }
}

TEST(TrainingShape, FusesTheProjectionsThatReadTheSameInput) {
  const auto p = preset("qwen2_7b");
  const auto qkv = fused(p.model, p.lora, Linear::qkv), down = fused(p.model, p.lora, Linear::down);
  EXPECT_EQ(qkv.in, 3584u);
  EXPECT_EQ(qkv.out, 4608u);
  EXPECT_EQ(qkv.rank_total, 192u);
  ASSERT_EQ(qkv.parts.size(), 3u);
  EXPECT_EQ(qkv.parts[2].row, 4096u);
  EXPECT_EQ(qkv.parts[2].u, 128u);
  EXPECT_EQ(down.in, 18944u);
  EXPECT_EQ(down.rank_total, 64u);
  const auto attention_only = preset("qwen2_7b_attention_only");
  EXPECT_EQ(fused(attention_only.model, attention_only.lora, Linear::gate_up).rank_total, 0u);
}

TEST(TrainingShape, LaysOutTheAdaptersInTheOrderOfTheBackwardPass) {
  const auto p = preset("qwen2_7b");
  const auto tensors = parameter_tensors(p.model, p.lora);
  ASSERT_EQ(tensors.size(), 28u * 14);
  EXPECT_EQ(tensors.front().layer, 27u);
  EXPECT_EQ(tensors.front().module, Module::down);
  EXPECT_EQ(tensors.back().layer, 0u);
  EXPECT_EQ(tensors.back().module, Module::v);
  std::size_t next = 0;
  for (const auto& t : tensors) {
    EXPECT_EQ(t.offset, next);
    next += t.size();
  }
  EXPECT_EQ(next, 161'480'704u);
}

TEST(TrainingPlan, FitsWhatTheIssueAsksFor) {
  // Without workspaces and what the driver and the libraries keep, together about 2 GB.
  EXPECT_NEAR(planned_gb(2, Retain::rebuild), 45.0, 1.5);
  EXPECT_NEAR(planned_gb(4, Retain::rebuild), 70.5, 1.5);
  EXPECT_NEAR(planned_gb(2, Retain::all), 57.0, 1.5);
  EXPECT_NEAR(planned_gb(2, Retain::inputs), 23.0, 1.5);
}

TEST(TrainingPlan, CutsSlicesThatDoNotOverlapAndAddUp) {
  const auto p = preset("tiny");
  for (const auto retain : {Retain::all, Retain::rebuild, Retain::inputs}) {
    const StepShape shape{.model = p.model, .lora = p.lora, .batch = 3, .seq = 5, .retain = retain};
    const auto planned = plan(shape, 2, 4, 1000);
    std::size_t end = 0;
    for (const auto& slice : planned.slices) {
      EXPECT_EQ(slice.offset % Arena::alignment, 0u) << slice.name;
      EXPECT_EQ(slice.offset, (end + Arena::alignment - 1) / Arena::alignment * Arena::alignment) << slice.name;
      end = slice.offset + slice.bytes;
    }
    EXPECT_EQ(planned.slices.back().name, "workspace");
    EXPECT_EQ(planned.slices.back().bytes, 1000u);
    EXPECT_EQ(planned.bytes, (end + Arena::alignment - 1) / Arena::alignment * Arena::alignment);
  }
}

TEST(TrainingPlan, RefusesTypesThatNoBackendHas) {
  EXPECT_THROW(plan(qwen2_7b_step(2, Retain::all), 2, 8, 0), std::invalid_argument);
}

}  // namespace
}  // namespace shakedown::training
