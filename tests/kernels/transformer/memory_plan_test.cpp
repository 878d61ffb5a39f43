// Plans of memory: equal to the bytes that a step and a decode reserve on the host, and to published sizes of models.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>

#include "kernels/device.hpp"
#include "kernels/transformer/buffers.hpp"
#include "kernels/transformer/decode_buffers.hpp"

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
          for (const auto dtype : {DType::f32, DType::f64}) {
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

}  // namespace
}  // namespace shakedown::training::memory_plan_test
