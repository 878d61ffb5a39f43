// The whole training step on the GPU, of adapters and of all parameters, against the same step on the host in f64. Also
// tests changes that must not affect a single bit.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/cuda/facts.hpp"
#include "kernels/transformer/cuda/attention.hpp"
#include "kernels/transformer/cuda/cuda_ops.hpp"
#include "kernels/transformer/measured_step.hpp"
#include "kernels/transformer/step.hpp"
#include "tests/kernels/cuda/on_gpu.hpp"
#include "tests/kernels/transformer/cuda/training_on_gpu.hpp"
#include "tests/kernels/transformer/host_step.hpp"

namespace shakedown::cuda {
namespace {

using training::AdapterPath;
using training::Retain;
using training::StepShape;

constexpr double liveliness = 0.1;

StepShape tiny_shape() {
  const auto preset = training::preset("tiny");
  return {.model = preset.model, .lora = preset.lora, .batch = 2, .seq = 48, .loss_chunk = 40, .bucket = 1000};
}

/// Returns a shape that trains every parameter of a model.
StepShape trained_shape(const char* model) {
  auto shape = tiny_shape();
  shape.model = training::preset(model).model;
  shape.lora = training::no_adapters;
  shape.trains = training::Trains::all;
  shape.retain = Retain::all;
  return shape;
}

/// Rounds every weight and adapter to bf16, so that both sides begin with the same values.
template <class Ops>
void round_weights(training::TrainingStep<Ops>& step, Ops& ops) {
  const auto round = [&ops](auto* values, std::size_t count) {
    using T = std::remove_reference_t<decltype(*values)>;
    std::vector<T> copy(count);
    ops.copy_out(copy.data(), values, count * sizeof(T));
    for (T& value : copy) value = static_cast<T>(__bfloat162float(__double2bfloat16(static_cast<double>(value))));
    ops.copy_in(values, copy.data(), count * sizeof(T));
  };
  if (step.shape().in_bf16()) return;  // set_lively_weights has rounded them
  auto& buffers = step.buffers();
  const auto& m = step.shape().model;
  // Trained weights are copied from the parameters.
  if (!std::is_same_v<typename Ops::Element, Bf16> && step.shape().trains == training::Trains::adapters) {
    const auto round_matrix = [&](const auto& matrix) { round(matrix.data, matrix.rows * matrix.stride); };
    round_matrix(buffers.embedding);
    round_matrix(buffers.head);
    round(buffers.final_norm.gain, m.hidden);
    for (auto& layer : buffers.layers) {
      for (const auto& matrix : layer.weights) round_matrix(matrix);
      round(layer.norm1.gain, m.hidden);
      round(layer.norm2.gain, m.hidden);
      round(layer.biases[0], m.qkv_width());
    }
  }
  round(buffers.state.parameters, buffers.state.count);
  step.restart();
}

/// Returns settings with the attention of cuDNN if it supports this shape, else with the plain one.
CudaOpsSettings any_attention(const Gpu& gpu, const StepShape& shape) {
  try {
    const CudaOps ops(gpu, nullptr, shape);
    return {};
  } catch (const MissingSoftware&) {
    return {.attention = AttentionKind::plain};
  }
}

/// Like HostStep, on the GPU.
struct CudaStep {
  CudaStep(const Gpu& gpu, const StepShape& shape) : CudaStep(gpu, shape, any_attention(gpu, shape)) {}
  CudaStep(const Gpu& gpu, const StepShape& shape, const CudaOpsSettings& settings)
      : ops(gpu, nullptr, shape, settings), step(ops, shape) {
    start();
  }
  void start() {
    set_lively_weights(step, ops, liveliness);
    round_weights(step, ops);
    load(batch_of(step.shape()));
  }
  void load(const Batch& batch) { step.load(batch.inputs, batch.targets); }

  double loss() {
    step.restart();
    step.run(no_update());
    return step.records().front().loss;
  }
  std::vector<float> gradient() {
    loss();
    return read(step.buffers().state.gradient);
  }
  std::vector<float> parameters() { return read(step.buffers().state.parameters); }
  std::vector<float> read(const float* values) {
    std::vector<float> result(step.buffers().state.count);
    ops.copy_out(result.data(), values, result.size() * sizeof(float));
    return result;
  }

  CudaOps ops;
  training::TrainingStep<CudaOps> step;
};

struct Agreement {
  double cosine, norms;
};
Agreement agreement(const float* got, const double* want, std::size_t count) {
  double product = 0, got_squares = 0, want_squares = 0;
  for (std::size_t i = 0; i < count; ++i) {
    product += double{got[i]} * want[i];
    got_squares += double{got[i]} * got[i];
    want_squares += want[i] * want[i];
  }
  return {product / std::sqrt(got_squares * want_squares), std::sqrt(got_squares / want_squares)};
}

class CudaLora : public OnGpu {
 protected:
  /// Compares the loss within 0.5 %, and the gradient of every adapter with a cosine of 0.999 and a norm within 2 %.
  static void expect_host_step(CudaStep& cuda, const StepShape& shape) {
    HostStep<double> host(shape);
    set_lively_weights(host.step, host.ops, liveliness);
    round_weights(host.step, host.ops);
    host.load(batch_of(shape));
    const double want_loss = host.loss();
    const auto want = host.gradient();
    EXPECT_NEAR(cuda.loss(), want_loss, 5e-3 * want_loss);
    const auto got = cuda.gradient();
    ASSERT_EQ(got.size(), want.size());
    for (const auto& t : cuda.step.tensors()) {
      const auto [cosine, norms] = agreement(got.data() + t.offset, want.data() + t.offset, t.size());
      const auto what = text(t);
      EXPECT_GE(cosine, 0.999) << what;
      EXPECT_NEAR(norms, 1, 0.02) << what;
    }
  }
};

TEST_F(CudaLora, IsTheHostsStep) {
  for (const auto retain : {Retain::rebuild, Retain::all, Retain::inputs}) {
    for (const auto path : {AdapterPath::augmented, AdapterPath::separate}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(retain)) +
                   (path == AdapterPath::augmented ? " augmented" : " separate"));
      auto shape = tiny_shape();
      shape.retain = retain;
      shape.path = path;
      CudaStep cuda(*gpu_, shape);
      expect_host_step(cuda, shape);
    }
  }
}

/// The same for the step that trains every parameter, for each tensor, including norms and biases.
TEST_F(CudaLora, IsTheHostsStepOfOtherModelsTrainedAsAWhole) {
  for (const char* const model : {"gpt2_tiny", "encoder_tiny", "tiny"}) {
    const auto shape = trained_shape(model);
    for (const auto attention : {any_attention(*gpu_, shape).attention, AttentionKind::plain}) {
      SCOPED_TRACE(model);
      CudaStep cuda(*gpu_, shape, {.attention = attention});
      expect_host_step(cuda, shape);
      EXPECT_TRUE(same_bits(cuda.gradient(), cuda.gradient()));
      EXPECT_EQ(cuda.step.bytes(), training::plan(shape, 2, 4, cuda.ops.workspace_bytes()).bytes);
    }
  }
}

TEST_F(CudaLora, IsTheHostsStepOfAWholeModelOverSeveralMicroBatchesWithLessKept) {
  auto shape = trained_shape("gpt2_tiny");
  shape.accumulation = 3;
  for (const auto retain : {Retain::rebuild, Retain::inputs}) {
    shape.retain = retain;
    CudaStep cuda(*gpu_, shape);
    expect_host_step(cuda, shape);
  }
}

TEST_F(CudaLora, LearnsAWholeModelAsTheHostDoes) {
  for (const char* const model : {"gpt2_tiny", "encoder_tiny"}) {
    SCOPED_TRACE(model);
    const auto shape = trained_shape(model);
    CudaStep cuda(*gpu_, shape);
    HostStep<double> host(shape);
    set_lively_weights(host.step, host.ops, liveliness);
    round_weights(host.step, host.ops);
    host.load(batch_of(shape));
    cuda.step.restart();
    host.step.restart();
    for (int i = 0; i < 10; ++i) {
      cuda.step.run({.lr = 1e-3});
      host.step.run({.lr = 1e-3});
    }
    const auto got = cuda.step.records(), want = host.step.records();
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i].loss, want[i].loss, 1e-2 * want[i].loss) << i;
    EXPECT_LT(got.back().loss, 0.98 * got.front().loss);
  }
}

/// The host rounds the same values with the same random numbers, but its gradients are not those of bf16.
TEST_F(CudaLora, LearnsAWholeModelWithAStateInBf16AsTheHostDoes) {
  for (const char* const model : {"gpt2_tiny", "tiny"}) {
    SCOPED_TRACE(model);
    auto shape = trained_shape(model);
    shape.masters = DType::bf16;
    CudaStep cuda(*gpu_, shape), again(*gpu_, shape);
    EXPECT_EQ(cuda.step.bytes(), training::plan(shape, 2, 4, cuda.ops.workspace_bytes()).bytes);
    HostStep<float> host(shape);
    set_lively_weights(host.step, host.ops, liveliness);
    host.load(batch_of(shape));
    EXPECT_EQ(cuda.step.parameter_summary().squared_norm, host.step.parameter_summary().squared_norm);
    for (int i = 0; i < 10; ++i) {
      cuda.step.run({.lr = 1e-3});
      again.step.run({.lr = 1e-3});
      host.step.run({.lr = 1e-3});
    }
    const auto got = cuda.step.records(), want = host.step.records();
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i].loss, want[i].loss, 1e-2 * want[i].loss) << i;
    EXPECT_LT(got.back().loss, 0.98 * got.front().loss);
    EXPECT_EQ(again.step.records().back().updated.checksum, got.back().updated.checksum);
    EXPECT_EQ(cuda.step.parameter_summary().checksum, got.back().updated.checksum);
  }
}

TEST_F(CudaLora, LearnsAWholeModelWithItsStateOnTheHostBitForBit) {
  for (const auto masters : {DType::f32, DType::bf16}) {
    auto shape = trained_shape("gpt2_tiny");
    shape.masters = masters;
    CudaStep device(*gpu_, shape);
    shape.state = training::StateMemory::host;
    CudaStep host(*gpu_, shape);
    const auto plan = training::plan(shape, 2, 4, host.ops.workspace_bytes());
    EXPECT_EQ(host.step.bytes(), plan.bytes);
    EXPECT_EQ(host.step.host_bytes(), plan.host_bytes);
    for (int i = 0; i < 20; ++i) {
      device.step.run({.lr = 1e-3});
      host.step.run({.lr = 1e-3});
    }
    const auto got = host.step.records(), want = device.step.records();
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(got[i].loss, want[i].loss) << i;
      EXPECT_EQ(got[i].updated.checksum, want[i].updated.checksum) << i;
    }
    EXPECT_EQ(host.step.parameter_summary().checksum, want.back().updated.checksum);
  }
}

TEST_F(CudaLora, OfAWholeModelIsCheckedThroughTheSeam) {
  const TrainStepSpec usual{.model = "gpt2_tiny", .batch = 2, .seq = 64};
  for (const auto& spec : {usual, with(usual, "masters:bf16"), with(usual, "state:host"),
                           TrainStepSpec{.model = "encoder_tiny", .batch = 2, .seq = 64}}) {
    SCOPED_TRACE(key(spec));
    const auto work = device_->prepare(spec);
    work->connect(group_);
    work->reset();
    work->stage(5);
    EXPECT_GT(device_->seconds(*work, 5), 0);
    const Check check = work->verify();
    EXPECT_TRUE(check.passed()) << check.first;
    work->corrupt();
    EXPECT_TRUE(contains(work->verify().first, "checksum"));
    work->reset();
    work->poison_input();
    work->stage(2);
    device_->seconds(*work, 2);
    EXPECT_TRUE(contains(work->verify().first, "not finite"));
  }
}

TEST_F(CudaLora, IsTheHostsStepWithPlainAttention) {
  CudaStep cuda(*gpu_, tiny_shape(), {.attention = AttentionKind::plain});
  EXPECT_EQ(cuda.ops.attention_name(), "plain");
  expect_host_step(cuda, tiny_shape());
}

TEST_F(CudaLora, IsTheHostsStepWithSomeAdaptersOnly) {
  auto shape = tiny_shape();
  shape.lora.adapted = {true, false, true, false, true, false, false};
  CudaStep cuda(*gpu_, shape);
  expect_host_step(cuda, shape);
}

TEST_F(CudaLora, IsTheHostsStepOverSeveralMicroBatches) {
  auto shape = tiny_shape();
  shape.accumulation = 3;
  CudaStep cuda(*gpu_, shape);
  expect_host_step(cuda, shape);
}

TEST_F(CudaLora, IsTheHostsStepAfterTuning) {
  CudaStep cuda(*gpu_, tiny_shape());
  Alone group;
  cuda.ops.start_tuning();
  cuda.step.run(no_update());
  cuda.ops.finish_tuning(group);
  cuda.start();
  EXPECT_GE(cuda.ops.products().plans().size(), 15U);
  expect_host_step(cuda, tiny_shape());
}

TEST_F(CudaLora, LearnsAsTheHostDoes) {
  const auto shape = tiny_shape();
  CudaStep cuda(*gpu_, shape);
  HostStep<double> host(shape);
  set_lively_weights(host.step, host.ops, liveliness);
  round_weights(host.step, host.ops);
  host.load(batch_of(shape));
  cuda.step.restart();
  host.step.restart();
  for (int i = 0; i < 10; ++i) {
    cuda.step.run({.lr = 3e-3});
    host.step.run({.lr = 3e-3});
  }
  const auto got = cuda.step.records(), want = host.step.records();
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i].loss, want[i].loss, 5e-3 * want[i].loss) << i;
  EXPECT_LT(got.back().loss, 0.98 * got.front().loss);
}

/// Both sides quantize in the same way, but from activations that differ by the rounding of bf16.
TEST_F(CudaLora, WithQuantizedProductsIsTheHostsStep) {
  auto shape = tiny_shape();
  shape.lora = {16, 32};
  shape.quantized = true;
  try {
    require_quantized_products(*gpu_);
  } catch (const Unsupported& reason) {
    GTEST_SKIP() << reason.what();
  }
  for (const auto retain : {Retain::all, Retain::rebuild, Retain::inputs}) {
    shape.retain = retain;
    CudaStep cuda(*gpu_, shape);
    HostStep<float> host(shape);
    set_lively_weights(host.step, host.ops, liveliness);
    round_weights(host.step, host.ops);
    host.load(batch_of(shape));
    const double want_loss = host.loss();
    EXPECT_NEAR(cuda.loss(), want_loss, 5e-3 * want_loss);
    const auto got = cuda.gradient(), gradient = host.gradient();
    EXPECT_TRUE(same_bits(got, cuda.gradient()));
    const std::vector<double> want(gradient.begin(), gradient.end());
    for (const auto& t : cuda.step.tensors()) {
      EXPECT_GE(agreement(got.data() + t.offset, want.data() + t.offset, t.size()).cosine, 0.99) << text(t);
    }
    const auto good = cuda.step.check_quantized_products();
    EXPECT_TRUE(good.passed()) << good.first;
    const auto& weights = cuda.step.buffers().layers[0].quantized[0];
    float factor = 0;
    cuda.ops.copy_out(&factor, weights.scales, sizeof factor);
    for (const float wrong : {2 * factor, factor}) {
      cuda.ops.copy_in(weights.scales, &wrong, sizeof wrong);
      EXPECT_EQ(cuda.step.check_quantized_products().passed(), wrong == factor);
    }
  }
}

/// The same for trained weights, which are quantized before each use; the gradient of weights is quantized too.
TEST_F(CudaLora, WithQuantizedProductsOfTrainedWeightsIsTheHostsStep) {
  try {
    require_quantized_products(*gpu_);
  } catch (const Unsupported& reason) {
    GTEST_SKIP() << reason.what();
  }
  for (const char* const model : {"tiny", "gpt2_tiny", "encoder_tiny"}) {
    SCOPED_TRACE(model);
    auto shape = trained_shape(model);
    shape.quantized = true;
    for (const std::size_t accumulation : {1, 2}) {
      shape.accumulation = accumulation;
      CudaStep cuda(*gpu_, shape);
      HostStep<float> host(shape);
      set_lively_weights(host.step, host.ops, liveliness);
      round_weights(host.step, host.ops);
      host.load(batch_of(shape));
      const double want_loss = host.loss();
      EXPECT_NEAR(cuda.loss(), want_loss, 5e-3 * want_loss);
      const auto got = cuda.gradient(), gradient = host.gradient();
      EXPECT_TRUE(same_bits(got, cuda.gradient()));
      const std::vector<double> want(gradient.begin(), gradient.end());
      for (const auto& t : cuda.step.tensors()) {
        EXPECT_GE(agreement(got.data() + t.offset, want.data() + t.offset, t.size()).cosine, 0.99) << text(t);
      }
      const auto good = cuda.step.check_quantized_products();
      EXPECT_TRUE(good.passed()) << good.first;
      EXPECT_EQ(cuda.step.bytes(), training::plan(shape, 2, 4, cuda.ops.workspace_bytes()).bytes);
    }
  }
}

TEST_F(CudaLora, GivesTheSameBitsHoweverOftenAndWhateverItKeeps) {
  CudaStep cuda(*gpu_, tiny_shape());
  const auto once = cuda.gradient();
  EXPECT_TRUE(same_bits(once, cuda.gradient()));
  for (const auto retain : {Retain::rebuild, Retain::all, Retain::inputs}) {
    auto shape = tiny_shape();
    shape.retain = retain;
    CudaStep other(*gpu_, shape);
    EXPECT_TRUE(same_bits(once, other.gradient())) << static_cast<int>(retain);
  }
}

TEST_F(CudaLora, GivesTheSameBitsWhenBothPassesAreLaunchedAsAWhole) {
  for (const auto& shape : {tiny_shape(), trained_shape("gpt2_tiny")}) {
    CudaStep plain(*gpu_, shape), whole(*gpu_, shape);
    whole.gradient();
    whole.step.repeat();
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(same_bits(plain.gradient(), whole.gradient())) << i;
    for (auto* cuda : {&plain, &whole}) {
      cuda->step.restart();
      for (int i = 0; i < 3; ++i) cuda->step.run({.lr = 1e-3});
    }
    EXPECT_TRUE(same_bits(plain.parameters(), whole.parameters()));
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(plain.step.records()[i].loss, whole.step.records()[i].loss) << i;
      EXPECT_EQ(plain.step.records()[i].local.checksum, whole.step.records()[i].local.checksum) << i;
    }
  }
}

TEST_F(CudaLora, BothPathsOfTheAdaptersAgree) {
  auto shape = tiny_shape();
  CudaStep augmented(*gpu_, shape);
  shape.path = AdapterPath::separate;
  CudaStep separate(*gpu_, shape);
  const auto a = augmented.gradient(), b = separate.gradient();
  const std::vector<double> want(b.begin(), b.end());
  EXPECT_GE(agreement(a.data(), want.data(), a.size()).cosine, 0.9995);
}

TEST_F(CudaLora, AllocatesWhatThePlanSays) {
  const auto shape = tiny_shape();
  CudaStep cuda(*gpu_, shape);
  EXPECT_EQ(cuda.step.bytes(), training::plan(shape, 2, 4, cuda.ops.workspace_bytes()).bytes);
}

TEST_F(CudaLora, ANumberThatIsNoneLeavesTheParametersAlone) {
  CudaStep cuda(*gpu_, tiny_shape());
  const auto before = cuda.parameters();
  cuda.step.restart();
  cuda.ops.set_bytes(cuda.step.buffers().layers[1].norm2.gain, 0xff, sizeof(Bf16));
  cuda.step.run({.lr = 1e-3});
  const auto record = cuda.step.records().front();
  EXPECT_GT(record.reduced.non_finite, 0U);
  EXPECT_TRUE(same_bits(before, cuda.parameters()));
}

TEST_F(CudaLora, RefusesWhatItsKernelsDoNotHold) {
  auto shape = tiny_shape();
  shape.model.vocab = 61;
  EXPECT_TRUE(contains(message_of([&] { CudaOps(*gpu_, nullptr, shape); }), "a vocabulary divisible by 8, not 61"));
}

// Like cuDNN before 9.18.1 on Blackwell.
TEST_F(CudaLora, WithoutDeterministicAttentionSaysSoAndIsChecked) {
  if (!cudnn_version()) GTEST_SKIP() << "this build has no cuDNN";
  const LoraStepSpec spec{.model = "tiny", .batch = 2, .seq = 64};
  const CudaOpsSettings settings{.attention = AttentionKind::cudnn, .deterministic = false};
  using Step = training::MeasuredStep<CudaOps, training::Trains::adapters>;
  Step work(spec, std::make_unique<Step::Ops>(*gpu_, nullptr, training::step_shape(spec), settings), *device_);
  work.connect(group_);
  work.reset();
  work.stage(5);
  EXPECT_GT(device_->seconds(work, 5), 0);
  const Check check = work.verify();
  EXPECT_TRUE(check.passed()) << check.first;
  EXPECT_NE(work.chosen(), "");
  for (const auto& [name, value] : work.metrics()) EXPECT_NE(name, "checksum") << value;
  work.corrupt();
  EXPECT_FALSE(work.verify().passed());
}

TEST_F(CudaLora, SaysHowMuchMemoryItNeeds) {
  const auto work = [&](int batch) {
    return message_of([&] { device_->prepare(LoraStepSpec{.model = "qwen2_7b", .batch = batch, .seq = 4096}); });
  };
  EXPECT_TRUE(contains(work(64), "needs "));
  EXPECT_TRUE(contains(work(64), " GB free"));
}

TEST_F(CudaLora, IsCheckedThroughTheSeam) {
  const auto work = device_->prepare(LoraStepSpec{.model = "tiny", .batch = 2, .seq = 64});
  work->connect(group_);
  work->reset();
  EXPECT_FALSE(work->verify().passed()) << "nothing was computed";
  work->stage(5);
  EXPECT_GT(device_->seconds(*work, 5), 0);
  const Check check = work->verify();
  EXPECT_TRUE(check.passed()) << check.first;
  double planned = 0;
  std::map<std::string, double> figures;
  for (const auto& [name, value] : work->metrics()) {
    EXPECT_TRUE(std::isfinite(value)) << name;
    if (name == "planned_gb") planned = value;
    figures[name] = value;
  }
  EXPECT_GT(planned, 0);
  EXPECT_LT(figures.at("loss_5"), figures.at("loss_2"));
  // 128 tokens in compute_ms, at a clock between 0.3 and 3 GHz.
  const double per_second = 128 / (figures.at("compute_ms") * 1e-3);
  EXPECT_GT(figures.at("tokens_per_s_per_ghz"), per_second / 3);
  EXPECT_LT(figures.at("tokens_per_s_per_ghz"), per_second / 0.3);

  work->reset();
  work->stage(3);
  device_->seconds(*work, 3);
  work->corrupt();
  EXPECT_TRUE(contains(work->verify().first, "checksum"));
  work->reset();
  work->poison_input();
  work->stage(2);
  device_->seconds(*work, 2);
  const Check spoiled = work->verify();
  EXPECT_FALSE(spoiled.passed());
  EXPECT_TRUE(contains(spoiled.first, "not finite"));
}

}  // namespace
}  // namespace shakedown::cuda
