// Plans of memory: equal to the bytes that a step and a decode reserve on the host, and to published sizes of models.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "kernels/device.hpp"
#include "kernels/transformer/buffers.hpp"
#include "kernels/transformer/decode_buffers.hpp"
#include "kernels/transformer/inference_plan.hpp"

namespace shakedown::training::memory_plan_test {
namespace {

std::size_t sum_of_uses(const Plan& plan) {
  return std::accumulate(plan.by_use.begin(), plan.by_use.end(), std::size_t{0},
                         [](std::size_t sum, const auto& use) { return sum + use.second; });
}

/// The host computes fp8 with elements of f32.
std::size_t host_element(DType dtype) { return dtype == DType::f64 ? 8 : 4; }

std::unique_ptr<Device> host() { return open_device(Backend::host, {.threads = 2}); }

template <Trains trains>
void expect_planned_bytes(const StepSpec<trains>& spec, Device& device) {
  const auto element = host_element(spec.dtype);
  const auto step = plan(step_shape(spec), element, element, 0);
  EXPECT_EQ(step.bytes, device.prepare(spec)->bytes()) << key(spec);
  EXPECT_EQ(sum_of_uses(step), step.bytes) << key(spec);
}

TEST(MemoryPlan, EqualsTheBytesThatATrainingStepReservesWithEachSwitch) {
  const auto device = host();
  for (const auto* const model : {"tiny", "gpt2_tiny", "encoder_tiny"}) {
    for (const auto retain : {Retain::all, Retain::rebuild, Retain::inputs}) {
      if (retain == Retain::rebuild && model == std::string("encoder_tiny")) continue;
      for (const auto shard : {Shard::none, Shard::optimizer, Shard::weights}) {
        for (const int tp : {1, 2}) {
          for (const auto dtype : {DType::f32, DType::f64, DType::fp8_e4m3}) {
            expect_planned_bytes(TrainStepSpec{.model = model,
                                               .batch = 2,
                                               .seq = 16,
                                               .dtype = dtype,
                                               .ranks = 2 * tp,
                                               .accumulation = 2,
                                               .retain = retain,
                                               .shard = shard,
                                               .tp = tp,
                                               .rank = 1},
                                 *device);
          }
        }
      }
    }
  }
}

TEST(MemoryPlan, EqualsTheBytesThatAStepOfAdaptersReserves) {
  const auto device = host();
  for (const auto retain : {Retain::all, Retain::rebuild, Retain::inputs}) {
    for (const auto dtype : {DType::f32, DType::f64, DType::fp8_e4m3}) {
      for (const int batch : {1, 3}) {
        expect_planned_bytes(LoraStepSpec{.model = "tiny", .batch = batch, .seq = 16, .dtype = dtype, .retain = retain},
                             *device);
      }
    }
  }
}

TEST(MemoryPlan, EqualsTheBytesThatADecodeReserves) {
  const auto device = host();
  for (const auto dtype : {DType::f32, DType::f64, DType::fp8_e4m3}) {
    for (const int batch : {1, 3}) {
      for (const auto& [share, tp, rank] : {std::tuple{1, 1, 0}, {2, 1, 0}, {1, 2, 0}, {1, 2, 1}}) {
        const DecodeSpec spec{
            .model = "tiny", .dtype = dtype, .batch = batch, .context = 9, .share = share, .tp = tp, .rank = rank};
        const auto element = host_element(dtype);
        const auto decode = plan(spec, element, element, 0);
        EXPECT_EQ(decode.bytes, device->prepare(spec)->bytes()) << key(spec);
        EXPECT_EQ(sum_of_uses(decode), decode.bytes) << key(spec);
      }
    }
  }
}

/// Each token of a layer keeps 159,736 bytes, or 107,512 if norms and SwiGLU are recomputed, or its input of 7,168.
TEST(MemoryPlan, HasTheActivationsOfQwen2ByWhatIsKept) {
  const auto kept = [](Retain retain) {
    const auto step = planned(LoraStepSpec{.model = "qwen2_7b", .batch = 2, .seq = 4096, .retain = retain});
    return static_cast<double>(step.by_use.at(Use::activations)) / (28 * 8192);
  };
  EXPECT_NEAR(kept(Retain::all), 159'736, 0.01 * 159'736);
  EXPECT_NEAR(kept(Retain::rebuild), 107'512, 0.01 * 107'512);
  EXPECT_NEAR(kept(Retain::inputs), 7'168, 0.05 * 7'168);
}

/// A parameter has 2 bytes of weight, 4 of gradient, and 12 of master and moments.
TEST(MemoryPlan, HasTheBytesOfEachParameterByUse) {
  const auto step = planned(TrainStepSpec{.model = "llama_70b", .batch = 1, .seq = 4096});
  const double parameters = 70'553'706'496;
  EXPECT_NEAR(static_cast<double>(step.by_use.at(Use::weights)), 2 * parameters, 1e6);
  EXPECT_NEAR(static_cast<double>(step.by_use.at(Use::gradients)), 4 * parameters, 1e6);
  EXPECT_NEAR(static_cast<double>(step.by_use.at(Use::optimizer)), 12 * parameters, 1e6);
}

TEST(MemoryPlan, CountsTheParametersOfLlama405b) {
  EXPECT_EQ(parameters(preset("llama_405b").model, no_adapters).total(), 405'853'388'800U);
}

TEST(MemoryPlan, RefusesAModelWithTheNearestName) {
  try {
    preset("llama_405");
    FAIL() << "there is no such model";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean llama_405b?"), std::string::npos) << error.what();
  }
}

// Decode ------------------------------------------------------------------------------------------------------------

constexpr double hbm_gb_per_s = 4450, small_us = 40, large_gb_per_s = 400;

GpuKind gpu_of(double bytes) {
  return {"gpu",
          bytes,
          StoredFigure{hbm_gb_per_s, "hbm", "a"},
          StoredFigure{small_us, "small", "b"},
          StoredFigure{large_gb_per_s, "large", "c"},
          true};
}

const InferenceOrder llama_405b{.model = "llama_405b", .dtype = DType::fp8_e4m3, .ranks = 8};

TEST(InferencePlan, HasWeightsAndKeysAndValuesOfEachRank) {
  const auto rows = inference_rows(llama_405b);
  ASSERT_EQ(rows.size(), 6U);
  const double embedding = 16384.0 * 128256, weights = 405.853e9 - embedding;
  for (const auto& row : rows) {
    // The embedding has two bytes, each other weight one.
    EXPECT_NEAR(static_cast<double>(row.by_use.at(Use::weights)), (weights + 2 * embedding) / 8, 0.1e9);
    EXPECT_NEAR(static_cast<double>(row.by_use.at(Use::cache)), 2.0 * 126 * row.spec.batch * row.spec.context * 128 * 2,
                1e6);
    EXPECT_EQ(row.bytes, static_cast<double>(footprint(row.spec)));
  }
}

TEST(InferencePlan, ComputesTheTimeOfATokenFromStoredFigures) {
  const auto row = inference_rows(llama_405b).front();
  const double reads = cost(row.spec).bytes / (hbm_gb_per_s * 1e9);
  const double sum = small_us * 1e-6 + 2 * 16384 * 1.75 / (large_gb_per_s * 1e9);
  const auto time = token_time(row.spec, gpu_of(150e9));
  ASSERT_TRUE(time);
  EXPECT_NEAR(time->reads_s, 11.4e-3, 0.1e-3);
  EXPECT_NEAR(time->seconds(), reads + 253 * sum, 1e-9);
  auto gpu = gpu_of(150e9);
  gpu.allreduce_us.reset();
  EXPECT_FALSE(token_time(row.spec, gpu)->sums_s);
  gpu.hbm_gb_per_s.reset();
  EXPECT_FALSE(token_time(row.spec, gpu));
  const auto alone = inference_rows({.model = "qwen2_7b"}).front();
  EXPECT_EQ(token_time(alone.spec, gpu_of(150e9))->sums_s, 0);
}

TEST(InferencePlan, FitsUpToTheByteAndFindsTheLargestBatch) {
  for (const auto& [order, batch] : {std::pair{InferenceOrder{.model = "qwen2_7b"}, 37}, {llama_405b, 48}}) {
    auto one = order;
    one.batches = {batch}, one.contexts = {8192};
    const auto row = inference_rows(one).front();
    const double needed = row.bytes + reserved_bytes;
    EXPECT_TRUE(fits(row, gpu_of(needed)));
    EXPECT_FALSE(fits(row, gpu_of(needed - 1)));
    EXPECT_EQ(largest_batch(order, 8192, gpu_of(needed)), batch);
    EXPECT_LT(largest_batch(order, 8192, gpu_of(needed - 1)), batch);
  }
  auto without_fp8 = gpu_of(150e9);
  without_fp8.has_fp8 = false;
  EXPECT_EQ(largest_batch(llama_405b, 4096, without_fp8), 1) << "one sequence needs no products of fp8";
}

TEST(InferencePlan, FitsNoAdaptersOfFp8OnAGpuWithoutIt) {
  const LoraStepSpec spec{.model = "qwen2_7b", .batch = 1, .seq = 4096, .dtype = DType::fp8_e4m3};
  auto gpu = gpu_of(150e9);
  EXPECT_EQ(memory_rows<Trains::adapters>(spec, {gpu}).front().fits.size(), 1U);
  gpu.has_fp8 = false;
  EXPECT_TRUE(memory_rows<Trains::adapters>(spec, {gpu}).front().fits.empty());
}

TEST(InferencePlan, RefusesWhatNoGpuDecodes) {
  const auto refused = [](InferenceOrder order) { EXPECT_THROW(inference_rows(order), std::invalid_argument); };
  refused({.model = "llama_70"});
  refused({.model = "gpt2_124m"});
  refused({.model = "llama_70b", .ranks = 3});
  refused({.model = "llama_70b", .dtype = DType::fp8_e4m3, .batches = {8}});
  refused({.model = "llama_70b", .batches = {0}});
}

TEST(InferencePlan, IsTheSameAsJson) {
  const auto json = nlohmann::json::parse(inference_json(llama_405b, {gpu_of(150e9)}, true));
  const auto rows = inference_rows(llama_405b);
  ASSERT_EQ(json["rows"].size(), rows.size());
  EXPECT_EQ(json["rows"][0]["bytes"], rows[0].bytes);
  EXPECT_EQ(json["gpus"][0]["hbm_gb_per_s"]["rule"], "a");
  EXPECT_EQ(json["gpus"][0]["rates"].size(), rows.size());
  EXPECT_EQ(json["gpus"][0]["largest_batch"]["4096"], largest_batch(llama_405b, 4096, gpu_of(150e9)));
  const TrainStepSpec step{.model = "llama_70b", .batch = 1, .seq = 4096, .ranks = 64, .tp = 8};
  const auto training = nlohmann::json::parse(memory_json(step, {gpu_of(150e9)}, true));
  ASSERT_EQ(training["rows"].size(), 9U);
  EXPECT_EQ(training["rows"][8]["fits"], nlohmann::json{"gpu"});
  EXPECT_EQ(training["rows"][8]["bytes_by_use"]["weights"], memory_rows(step, {})[8].by_use.at(Use::weights));
}

}  // namespace
}  // namespace shakedown::training::memory_plan_test
