// The training step on the host in float64 against transformers and peft (tests/peers/golden_lora_step.py wrote
// tests/data/lora_golden.txt). GPT-2 and the encoder are compared with a reference without hand-written derivatives
// (tests/peers/reference_step.py). Finite differences of our own loss cannot verify these properties: the halves of the
// rotation, the grouping of heads, the scale of the adapters, the mean of the loss, clipping, and the details of AdamW.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "tests/kernels/transformer/host_step.hpp"

namespace shakedown::golden_test {
namespace {

using Values = std::map<std::size_t, double>;

/// Returns "loss", "gradient" and "parameter": values by step or by index in the flat array.
std::map<std::string, Values> golden(const char* name) {
  std::ifstream file(std::filesystem::path(SHAKEDOWN_SOURCE_DIR) / "tests/data" / name);
  std::map<std::string, Values> values;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string kind;
    std::size_t index = 0;
    double value = 0;
    words >> kind >> index >> value;
    if (!words) throw std::runtime_error("not a golden value: " + line);
    values[kind][index] = value;
  }
  return values;
}

/// Returns the largest difference, relative to the root mean square of the expected values.
template <class T>
double distance(const std::vector<T>& got, const Values& expected) {
  double largest = 0, squares = 0;
  for (const auto& [index, value] : expected) {
    largest = std::max(largest, std::abs(static_cast<double>(got.at(index)) - value));
    squares += value * value;
  }
  return largest / std::sqrt(squares / static_cast<double>(expected.size()));
}

template <class T>
void expect_golden(const char* file, const training::StepShape& shape, double tolerance,
                   const training::AdamW& update = {.lr = 0.01}) {
  const auto expected = golden(file);
  ASSERT_EQ(expected.at("loss").size(), 3u);
  ASSERT_GT(expected.at("gradient").size(), 1000u);
  ASSERT_EQ(expected.at("parameter").size(), expected.at("gradient").size());

  HostStep<T> host(shape);
  EXPECT_LT(distance(host.gradient(), expected.at("gradient")), tolerance);
  host.step.restart();
  for (int i = 0; i < 3; ++i) host.step.run(update);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(host.step.records()[i].loss, expected.at("loss").at(i), tolerance * expected.at("loss").at(i)) << i;
  }
  EXPECT_LT(distance(host.parameters(), expected.at("parameter")), tolerance);
}

TEST(LoraGolden, AgreesWithTransformersAndPeftInDouble) {
  expect_golden<double>("lora_golden.txt", ragged_shape(), 1e-10);
}

// AdamW divides by the root of a value that may be tiny, so that a rounding error of a small gradient moves its
// parameter visibly.
TEST(LoraGolden, AgreesWithTransformersAndPeftInFloat) {
  expect_golden<float>("lora_golden.txt", ragged_shape(), 3e-5);
}

// A constant added to all keys does not change attention. The gradient of their bias is therefore only rounding error,
// which a smaller epsilon would amplify.
constexpr training::AdamW gentle{.lr = 0.01, .eps = 1e-6};

TEST(TrainGolden, AgreesWithTheReferenceOfGpt2InDouble) {
  expect_golden<double>("gpt2_golden.txt", gpt2_shape(), 1e-10, gentle);
}
TEST(TrainGolden, AgreesWithTheReferenceOfTheEncoderInDouble) {
  expect_golden<double>("encoder_golden.txt", encoder_shape(), 1e-10, gentle);
}

// All random numbers of the rounding are those of the reference, so that no value may be rounded to another neighbour.
TEST(TrainGolden, AgreesWithTheReferenceOfAStateInBf16) {
  auto shape = gpt2_shape();
  shape.masters = DType::bf16;
  expect_golden<double>("gpt2_bf16_golden.txt", shape, 1e-10, gentle);
}

}  // namespace
}  // namespace shakedown::golden_test
