// A training state in bf16 on the host: its random numbers, the mean of its rounding, and steps that give the same bits
// on any number of ranks. tests/kernels/transformer/golden_test.cpp compares it with an independent reference.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "kernels/short_floats.hpp"
#include "kernels/transformer/rounding.hpp"
#include "tests/kernels/transformer/checked_step.hpp"
#include "tests/kernels/transformer/host_step.hpp"
#include "tests/kernels/transformer/ranks.hpp"

namespace shakedown::bf16_masters_test {
namespace {

using training::AdamW;
using training::RandomWords;
using training::RoundingOfFour;
using training::Shard;
using training::StepShape;
using training::Summary;

StepShape in_bf16(StepShape shape) {
  shape.masters = DType::bf16;
  return shape;
}

void expect_words(const RandomWords& got, const std::array<std::uint32_t, 4>& want) {
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(got.at[i], want[i]) << i;
}

/// The known answers are those of the authors' library Random123 (kat_vectors).
TEST(RandomNumbers, AreThoseOfPhilox) {
  expect_words(training::philox({{0, 0, 0, 0}}, 0), {0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48});
  expect_words(training::philox({{0, 0, 0, 0}}, 0, 10), {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr auto ones = ~std::uint32_t{0};
  expect_words(training::philox({{ones, ones, ones, ones}}, ~std::uint64_t{0}, 10),
               {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  expect_words(training::philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0a4093822U, 10),
               {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

/// The rounding errors of n values in units of the distance between neighbours, by array.
struct Errors {
  std::array<double, 3> sums{}, products{};

  void add(float value, const std::array<std::uint32_t, 3>& random) {
    std::array<double, 3> errors{};
    const float below = from_bf16(training::rounded_at_random(std::bit_cast<std::uint32_t>(value), 0)),
                above = from_bf16(static_cast<std::uint16_t>(to_bf16(below) + 1));
    for (std::size_t a = 0; a < 3; ++a) {
      const float rounded = from_bf16(training::rounded_at_random(std::bit_cast<std::uint32_t>(value), random[a]));
      EXPECT_TRUE(rounded == below || rounded == above) << value;
      errors[a] = (double{rounded} - value) / (double{above} - below);
      sums[a] += errors[a];
    }
    for (std::size_t a = 0; a < 3; ++a) products[a] += errors[a] * errors[(a + 1) % 3];
  }
};

TEST(StochasticRounding, IsRightInTheMeanForEachArrayAndWithoutCorrelation) {
  constexpr std::size_t n = 1 << 18;
  for (const std::uint64_t seed : {0xa11ceULL, 0xb0bULL}) {
    Errors errors;
    for (std::uint64_t i = 0; i < n; ++i) {
      const RoundingOfFour random(seed, 17, i);
      const auto j = static_cast<unsigned>(i % 4);
      errors.add(static_cast<float>(reference::normal(i, 5)),
                 {random.parameter(j), random.first_moment(j), random.second_moment(j)});
    }
    // The error of a value has a variance of at most 1/4, and of 1/6 in the mean over all places between neighbours.
    const double limit = 5 * std::sqrt(n / 6.0);
    for (std::size_t a = 0; a < 3; ++a) {
      EXPECT_LT(std::abs(errors.sums[a]), limit) << "array " << a << ", n " << n;
      EXPECT_LT(std::abs(errors.products[a]), 5 * std::sqrt(n / 36.0)) << "array " << a << ", n " << n;
    }
  }
}

TEST(StochasticRounding, ChangesNoNumberOfBf16AndKeepsInfinityAndNaN) {
  for (const float value : {0.0F, -0.0F, 1.0F, -1.5F, 0x1p-130F, HUGE_VALF, -HUGE_VALF}) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (const std::uint32_t random : {0U, 1U, 0x8000U, 0xffffU}) {
      EXPECT_EQ(training::rounded_at_random(bits, random), bits >> 16) << value;
    }
  }
  for (const std::uint32_t nan : {0x7f800001U, 0x7fffffffU, 0xffffffffU}) {
    EXPECT_TRUE(std::isnan(from_bf16(training::rounded_at_random(nan, 0xffff)))) << nan;
  }
}

/// A state of `count` equal values with one tensor at this position of the model.
struct Values {
  explicit Values(std::size_t count, std::size_t position = 0)
      : parameters(count, 1), gradient(count, 1), first(count, 0), second(count, 0), team(1), ops(team) {
    const training::ParameterSlot<float> slot{0, {parameters.data(), 1, count, count}, 1, false, 0, position};
    ops.place_copies({&slot, 1});
  }
  void update(const AdamW& settings, const Summary& norm = {0.25, 0, 0}) {
    updated = {};
    ops.adamw(training::Bf16State<float, float>{parameters.data(), gradient.data(), first.data(), second.data(),
                                                parameters.size()},
              settings, &norm, &updated, 0, 1);
  }

  std::vector<float> parameters, gradient, first, second;
  host::Team team;
  host::HostOps<float> ops;
  Summary updated{};
};

TEST(UpdatesInBf16, KeepInTheMeanWhatRoundingToNearestLoses) {
  constexpr std::size_t n = 1 << 16;
  Values values(n);
  // The first step moves each parameter by the rate: by 1/39 of the distance from 1 to the number below.
  constexpr double rate = 1e-4, distance = 0x1p-8;
  ASSERT_EQ(from_bf16(to_bf16(static_cast<float>(1 - rate))), 1);
  values.update({.lr = rate, .eps = 1e-12, .seed = 42});
  double moved = 0;
  for (const float parameter : values.parameters) moved += 1 - double{parameter};
  const double p = rate / distance;
  EXPECT_NEAR(moved / n, rate, 5 * distance * std::sqrt(p * (1 - p) / n)) << "n " << n;
}

TEST(UpdatesInBf16, DependOnSeedStepAndPositionAndOnNothingElse) {
  const auto updated = [](std::size_t count, std::size_t position, std::uint64_t seed, std::uint64_t step) {
    Values values(count, position);
    values.update({.lr = 1e-3, .step = step, .seed = seed});
    return values.parameters;
  };
  const auto all = updated(4096, 0, 1, 1);
  EXPECT_EQ(updated(4096, 0, 1, 1), all);
  EXPECT_NE(updated(4096, 0, 2, 1), all);
  EXPECT_NE(updated(4096, 0, 1, 2), all);
  EXPECT_NE(updated(4096, 4, 1, 1), all);
  EXPECT_EQ(updated(1000, 1001, 1, 1), std::vector<float>(all.begin() + 1001, all.begin() + 2001));
}

TEST(UpdatesInBf16, ChangeNothingIfTheGradientIsNotFinite) {
  for (const Summary& bad : {Summary{1, 1, 0}, Summary{HUGE_VAL, 0, 0}}) {
    Values values(64);
    values.update({}, bad);
    EXPECT_EQ(values.parameters, std::vector<float>(64, 1));
    EXPECT_EQ(values.first, std::vector<float>(64, 0));
    EXPECT_EQ(values.updated.squared_norm, 64);
  }
}

bool is_bf16(float value) { return from_bf16(to_bf16(value)) == value; }

/// Returns the parameters after some steps on `ranks` ranks with the same tokens.
std::vector<float> trained(StepShape shape, int ranks, int steps, std::uint64_t seed = 0) {
  std::vector<float> parameters;
  shape.ranks = ranks;
  shape.shard = ranks > 1 ? Shard::weights : Shard::none;
  run_ranks(ranks, [&](Group& group) {
    auto mine = shape;
    mine.rank = group.rank();
    HostStep<float> host(mine, 1, &group);
    for (int i = 0; i < steps; ++i) host.step.run({.lr = 0.01, .seed = seed});
    const auto all = host.parameters();
    const auto& state = host.step.buffers().bf16_state;
    for (const auto* const array : {state.parameters, state.first_moment, state.second_moment}) {
      for (std::size_t i = 0; i < state.count; ++i) ASSERT_TRUE(is_bf16(array[i])) << array[i];
    }
    if (group.rank() == 0) parameters = all;
  });
  return parameters;
}

/// The same tokens on a power of two of ranks give the same gradient, because its scaling needs no rounding.
TEST(StepsInBf16, GiveTheSameBitsAgainAndOnAnyNumberOfRanks) {
  for (const auto& shape : {in_bf16(gpt2_shape()), in_bf16(qwen2_shape(4))}) {
    const auto one = trained(shape, 1, 5);
    EXPECT_EQ(trained(shape, 1, 5), one);
    EXPECT_EQ(trained(shape, 2, 5), one);
    EXPECT_EQ(trained(shape, 4, 5), one);
    EXPECT_NE(trained(shape, 1, 5, 1), one) << "another seed";
  }
}

TEST(StepsInBf16, AllocateWhatWasPlannedWhichIsLess) {
  auto shape = in_bf16(qwen2_shape(4));
  for (const int ranks : {1, 2, 3}) {
    shape.ranks = ranks;
    shape.shard = ranks > 1 ? Shard::weights : Shard::none;
    host::Team team(1);
    host::HostOps<float> ops(team);
    EXPECT_EQ(training::TrainingStep<host::HostOps<float>>(ops, shape).bytes(), training::plan(shape, 4, 4, 0).bytes);
  }
  TrainStepSpec spec{.model = "qwen2_7b", .batch = 1, .seq = 4096, .ranks = 2, .shard = Shard::weights};
  const auto bytes = footprint(spec);
  spec.masters = DType::bf16;
  const auto count = training::step_shape(spec).layout().count() / 2;
  const auto slice = [](std::size_t size) { return (size + 255) / 256 * 256; };
  EXPECT_EQ(bytes - footprint(spec), 3 * slice(4 * count) - 2 * slice(2 * count));  // two moments, three values before
  EXPECT_EQ(key(spec), "train_step/model:qwen2_7b/batch:1/seq:4096/shard:weights/masters:bf16");
}

TEST(StepsInBf16, AreRefusedInOneLineWhereTheyCannotBe) {
  const auto is_refused = [](const auto& spec) {
    const auto why = input_error_of([&] { static_cast<void>(footprint(spec)); });
    return why.starts_with("masters:bf16") && why.find('\n') == std::string::npos;
  };
  TrainStepSpec spec{.model = "tiny", .seq = 16, .ranks = 2, .masters = DType::bf16};
  EXPECT_GT(footprint(spec), 0U);
  spec.shard = Shard::optimizer;
  EXPECT_TRUE(is_refused(spec));
  spec.shard = Shard::none;
  spec.tp = 2;
  EXPECT_TRUE(is_refused(spec));
  EXPECT_TRUE(is_refused(LoraStepSpec{.model = "tiny", .seq = 16, .masters = DType::bf16}));
  EXPECT_EQ(with(TrainStepSpec{.model = "tiny"}, "masters:bf16").masters, DType::bf16);
  EXPECT_NE(input_error_of([] { with(TrainStepSpec{.model = "tiny"}, "masters:fp8"); }), "");
}

/// A measurement checks its losses, and finds a changed parameter.
TEST(StepsInBf16, AreCheckedThroughTheSeam) {
  expect_checked_through_the_seam(
      {.model = "gpt2_tiny", .batch = 2, .seq = 16, .dtype = DType::f32, .masters = DType::bf16});
}

}  // namespace
}  // namespace shakedown::bf16_masters_test
