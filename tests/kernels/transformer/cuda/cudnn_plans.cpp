// The attention of the measured models on GPUs that need not be present: cuDNN selects, builds and compiles its plans.
// Runs in tests/cuda/cudnn_plans_test.sh, with a stand-in of the driver.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "kernels/cuda/facts.hpp"
#include "kernels/device.hpp"
#include "kernels/transformer/attention_choice.hpp"
#include "kernels/transformer/cuda/attention.hpp"

namespace shakedown::cuda {
namespace {

constexpr std::size_t gib = std::size_t{1} << 30;

struct Kind {
  const char* name;
  DescribedGpu gpu;
};

// Compute capability, multiprocessors, shared memory of a block, threads of a multiprocessor, memory.
constexpr Kind kinds[]{
    {"A100", {80, 108, 166912, 2048, 80 * gib}},   {"L40S", {89, 142, 101376, 1536, 45 * gib}},
    {"H100", {90, 132, 232448, 2048, 80 * gib}},   {"B200", {100, 148, 232448, 2048, 178 * gib}},
    {"B300", {103, 148, 232448, 2048, 268 * gib}}, {"RTX PRO 6000", {120, 188, 101376, 1536, 95 * gib}}};

AttentionShape shape_of(int batch, int sequence, int heads, int kv_heads, int size, bool causal) {
  const auto q = static_cast<std::size_t>(heads * size), all = static_cast<std::size_t>((heads + 2 * kv_heads) * size);
  return {batch, sequence, heads, kv_heads, size, all, q, q, all, causal};
}

// qwen2_7b, its half on each of two ranks, gpt2_124m, encoder_163m.
std::vector<AttentionShape> shapes() {
  return {shape_of(2, 4096, 28, 4, 128, true), shape_of(2, 4096, 14, 2, 128, true),
          shape_of(32, 1024, 12, 12, 64, true), shape_of(8, 512, 12, 12, 64, false)};
}

std::string refusal(const AttentionShape& shape, bool deterministic, const DescribedGpu& gpu) {
  try {
    plan_cudnn_attention(shape, deterministic, gpu);
  } catch (const Unsupported& reason) {
    return reason.what();
  }
  return "";
}

class CudnnPlans : public testing::TestWithParam<Kind> {};

// A GPU that the library supports never gets another attention than that of cuDNN.
TEST_P(CudnnPlans, AreBuiltForTheMeasuredModels) {
  const bool recent = cudnn_version().value_or(0) >= training::cudnn_for_attention;
  for (const auto& shape : shapes()) {
    SCOPED_TRACE(fmt::format("{} x {} of {} heads", shape.batch, shape.sequence, shape.query_heads));
    EXPECT_EQ(refusal(shape, false, GetParam().gpu), "");
    if (recent) {
      EXPECT_EQ(refusal(shape, true, GetParam().gpu), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllGpus, CudnnPlans, testing::ValuesIn(kinds),
                         [](const auto& kind) { return "Sm" + std::to_string(kind.param.gpu.compute_capability); });

TEST(CudnnPlansOfOldGpus, AreRefused) {
  const auto reason = refusal(shapes().front(), false, {75, 40, 65536, 1024, 15 * gib});
  EXPECT_NE(reason.find("no engine for attention"), std::string::npos) << reason;
}

}  // namespace
}  // namespace shakedown::cuda
