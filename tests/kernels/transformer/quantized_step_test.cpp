// The step that trains every parameter with its products in fp8, on the host. Compares it with the step in f64, and
// plants faults into the quantized rows, which the check after the steps must find.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/statistics.hpp"
#include "kernels/device.hpp"
#include "kernels/transformer/measured_step.hpp"
#include "tests/kernels/transformer/gradients.hpp"
#include "tests/kernels/transformer/ranks.hpp"

namespace shakedown::quantized_step_test {
namespace {

using training::AdamW;
using training::QuantizedRows;
using training::Retain;
using training::Shard;
using training::StepShape;

/// Larger weights would make a softmax so sharp that it amplifies rounding.
constexpr double calm = 0.1;

StepShape quantized(StepShape shape) {
  shape.quantized = true;
  return shape;
}

template <class T>
void set_calm(HostStep<T>& host) {
  set_lively_weights(host.step, host.ops, calm);
  host.load(batch_of(host.step.shape()));
}

struct Composition {
  const char* name;
  StepShape shape;
};
class QuantizedStep : public testing::TestWithParam<Composition> {};
INSTANTIATE_TEST_SUITE_P(Compositions, QuantizedStep,
                         testing::Values(Composition{"gpt2", gpt2_shape()}, Composition{"encoder", encoder_shape()},
                                         Composition{"qwen2", qwen2_shape()}, Composition{"deep", qwen2_shape(6)}),
                         [](const auto& composition) { return composition.param.name; });

/// Returns the cosine of each tensor's gradient with the exact one.
std::vector<double> cosines(const std::vector<training::ParameterTensor>& tensors, const std::vector<float>& got,
                            const std::vector<double>& want) {
  std::vector<double> all;
  for (const auto& t : tensors) {
    double product = 0, got_squares = 0, want_squares = 0;
    for (auto i = t.offset; i < t.end(); ++i) {
      product += static_cast<double>(got[i]) * want[i];
      got_squares += static_cast<double>(got[i]) * static_cast<double>(got[i]);
      want_squares += want[i] * want[i];
    }
    all.push_back(product / std::sqrt(got_squares * want_squares));
  }
  return all;
}

TEST_P(QuantizedStep, IsNearTheStepInF64) {
  const auto& shape = GetParam().shape;
  HostStep<double> exact(shape);
  HostStep<float> fp8(quantized(shape));
  set_calm(exact);
  set_calm(fp8);
  EXPECT_NEAR(fp8.loss(), exact.loss(), 0.02 * exact.loss());
  EXPECT_NE(fp8.loss(), exact.loss());
  const auto of_tensors = cosines(exact.step.tensors(), fp8.gradient(), exact.gradient());
  EXPECT_GE(median(of_tensors), 0.995) << "least " << *std::min_element(of_tensors.begin(), of_tensors.end());
  EXPECT_GE(*std::min_element(of_tensors.begin(), of_tensors.end()), 0.95);
}

TEST_P(QuantizedStep, LearnsAsTheStepInF64) {
  const auto& shape = GetParam().shape;
  HostStep<double> exact(shape);
  HostStep<float> fp8(quantized(shape));
  set_calm(exact);
  set_calm(fp8);
  for (int i = 0; i < 20; ++i) {
    exact.step.run(AdamW{.lr = 0.001});
    fp8.step.run(AdamW{.lr = 0.001});
  }
  const auto got = fp8.step.records();
  const auto want = exact.step.records();
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i].loss, want[i].loss, 0.02 * want[i].loss) << i;
  EXPECT_LT(got.back().loss, 0.95 * got.front().loss);
}

TEST_P(QuantizedStep, GivesTheSameBitsHoweverMuchIsKeptAndPassesItsCheck) {
  auto shape = quantized(GetParam().shape);
  shape.retain = Retain::all;
  HostStep<float> all(shape);
  const auto want = all.gradient();
  for (const auto retain : {Retain::all, Retain::rebuild, Retain::inputs}) {
    if (retain == Retain::rebuild && !shape.model.norms_before()) continue;
    shape.retain = retain;
    HostStep<float> other(shape, 3);
    EXPECT_EQ(other.gradient(), want) << name(retain);
    const auto check = other.step.check_quantized_products();
    EXPECT_TRUE(check.passed()) << check.first;
    EXPECT_GT(check.compared, 1000U);
  }
}

TEST_P(QuantizedStep, AddsTheGradientsOfMicroBatches) {
  auto shape = quantized(GetParam().shape);
  HostStep<float> whole(shape);
  set_calm(whole);
  const auto want = whole.gradient();
  shape.batch = 1;
  shape.accumulation = 2;
  HostStep<float> cut(shape);
  set_calm(cut);
  EXPECT_LT(distance(cut.gradient(), want), 0.1) << "other factors, because columns have other values";
  EXPECT_LT(distance(cut.gradient(), want), 0.1) << "nothing is left of the step before";
}

/// Each rank has the same sequences, and the number of ranks is a power of two. The sum over ranks is then the gradient
/// of one rank.
TEST_P(QuantizedStep, IsTheSameWhereRanksShareTheModel) {
  auto shape = quantized(GetParam().shape);
  HostStep<float> whole(shape);
  const auto want = whole.gradient();
  for (const auto shard : {Shard::none, Shard::optimizer, Shard::weights}) {
    std::vector<std::uint64_t> checksums(4);
    run_ranks(4, [&](Group& group) {
      auto mine = shape;
      mine.ranks = 4;
      mine.shard = shard;
      mine.rank = group.rank();
      HostStep<float> part(mine, 1, &group);
      EXPECT_LT(distance(part.gradient(), want), 1e-6) << name(shard);
      const auto check = part.step.check_quantized_products();
      EXPECT_TRUE(check.passed()) << check.first;
      part.step.run(AdamW{.lr = 0.01});
      checksums[static_cast<std::size_t>(group.rank())] = part.step.weights_summary().checksum;
    });
    for (const auto checksum : checksums) EXPECT_EQ(checksum, checksums[0]) << name(shard);
  }
}

// Faults --------------------------------------------------------------------------------------------------------------

/// Damages rows after they are quantized.
using Damage = std::function<void(const QuantizedRows&)>;

struct DamagedOps : host::HostOps<float> {
  using HostOps::HostOps;

  void quantize(training::Matrix<const float> x, const QuantizedRows& to) {
    HostOps::quantize(x, to);
    if (rows) rows(to);
  }
  void quantize_transposed(training::Matrix<const float> x, const QuantizedRows& to) {
    HostOps::quantize_transposed(x, to);
    if (columns) columns(to);
  }

  using HostOps::gemm;
  void gemm(const training::QuantizedGemm<float>& product) {
    HostOps::gemm(product);
    if (is_wrong_product) product.d.data[0] *= 1.5F;
  }

  Damage rows, columns;
  bool is_wrong_product = false;
};

/// Returns the check of a step whose quantized rows, or columns, are damaged.
Check check_of(const Damage& rows, const Damage& columns, bool is_wrong_product = false) {
  host::Team team(2);
  DamagedOps ops(team);
  Alone group;
  training::TrainingStep<DamagedOps> step(ops, quantized(qwen2_shape()));
  ops.connect(group);
  set_lively_weights(step, ops, calm);
  const auto batch = batch_of(step.shape());
  step.load(batch.inputs, batch.targets);
  ops.rows = rows;
  ops.columns = columns;
  ops.is_wrong_product = is_wrong_product;
  step.run(AdamW{});
  return step.check_quantized_products();
}

TEST(QuantizedStepFault, IsFoundInRowsAndInColumns) {
  EXPECT_TRUE(check_of({}, {}).passed());
  EXPECT_FALSE(check_of({}, {}, true).passed()) << "an element of each product is wrong";
  const std::vector<std::pair<const char*, Damage>> damages = {
      {"a wrong factor", [](const QuantizedRows& q) { q.scales[0] *= 1.5F; }},
      {"a factor twice as large", [](const QuantizedRows& q) { q.scales[q.values.rows - 1] *= 2; }},
      {"a stuck bit of the mantissa",
       [](const QuantizedRows& q) {
         for (std::size_t r = 0; r < q.values.rows; ++r) {
           for (std::size_t c = 0; c < q.values.cols; ++c) q.values.data[r * q.values.stride + c] |= 1;
         }
       }},
      {"swapped factors", [](const QuantizedRows& q) { std::swap(q.scales[0], q.scales[q.values.rows - 1]); }},
      {"a lost row", [](const QuantizedRows& q) { std::fill_n(q.values.data, q.values.cols, std::uint8_t{0}); }}};
  for (const auto& [what, damage] : damages) {
    EXPECT_FALSE(check_of(damage, {}).passed()) << what << " of rows";
    EXPECT_FALSE(check_of({}, damage).passed()) << what << " of columns";
  }
}

TEST(QuantizedStepRow, IsMeasuredAndCheckedThroughTheSeam) {
  const auto device = open_device(Backend::host, {.threads = 2});
  const TrainStepSpec spec{.model = "tiny", .batch = 2, .seq = 16, .dtype = DType::fp8_e4m3};
  EXPECT_EQ(key(spec), "train_step/model:tiny/dtype:fp8/batch:2/seq:16");
  const auto work = device->prepare(spec);
  Alone group;
  work->connect(group);
  work->reset();
  work->stage(5);
  device->seconds(*work, 5);
  const auto check = work->verify();
  EXPECT_TRUE(check.passed()) << check.first;
  work->corrupt();
  EXPECT_FALSE(work->verify().passed());
  work->reset();
  work->poison_input();
  work->stage(2);
  device->seconds(*work, 2);
  EXPECT_FALSE(work->verify().passed());
}

}  // namespace
}  // namespace shakedown::quantized_step_test
