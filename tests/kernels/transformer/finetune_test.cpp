// Fine-tuning through the interface that a program uses: weights and tokens of the caller, on the host.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>

#include "base/temporary_folder.hpp"
#include "kernels/backends.hpp"
#include "kernels/reference.hpp"
#include "kernels/transformer/finetune_spec.hpp"
#include "kernels/transformer/trainer.hpp"
#include "tests/kernels/transformer/ranks.hpp"

namespace shakedown {
namespace {

using training::no_target;
using training::Trainer;
using training::TrainingTokens;

FinetuneSpec tiny_spec() {
  const auto [model, lora] = training::preset("tiny");
  return {.model = "tiny", .shape = model, .lora = lora, .batch = 2, .seq = 12, .dtype = DType::f64, .steps = 5};
}

/// A trainer on one rank, with random weights in which each part of the model matters.
struct Tuned {
  explicit Tuned(const FinetuneSpec& of, Group* ranks = nullptr)
      : spec(of), device(host::open_device({})), work(device->prepare(spec)), trainer(dynamic_cast<Trainer&>(*work)) {
    work->connect(ranks != nullptr ? *ranks : alone);
    trainer.set_weights([](const training::ParameterTensor& t, std::size_t first, std::span<float> out) {
      for (std::size_t i = 0; i < out.size(); ++i) {
        const auto number = (t.layer * 100 + static_cast<std::size_t>(t.owner) * 7 + static_cast<std::size_t>(t.kind) +
                             static_cast<std::size_t>(t.module) * 1000)
                            << 20;
        const bool is_gain = t.is_norm() && t.kind == training::Kind::weight;
        out[i] = static_cast<float>((is_gain ? 1 : 0) + 0.1 * reference::normal(number + first + i, 5));
      }
    });
  }

  std::vector<std::vector<float>> parameters() {
    std::vector<std::vector<float>> all;
    for (const auto& t : trainer.trained()) all.push_back(trainer.values(t));
    return all;
  }

  Alone alone;
  FinetuneSpec spec;
  std::unique_ptr<Device> device;
  std::unique_ptr<Work> work;
  Trainer& trainer;
};

/// Returns some rows of a text, in which every third position has no loss.
TrainingTokens rows_of_text(const FinetuneSpec& spec, std::size_t first, std::size_t rows) {
  TrainingTokens tokens;
  for (auto i = first * spec.seq; i < (first + rows) * spec.seq; ++i) {
    const auto token = [&](std::size_t at) { return static_cast<int>(reference::mix(at) % spec.shape.vocab); };
    tokens.inputs.push_back(token(i));
    tokens.targets.push_back(i % 3 == 0 ? no_target : token(i + 1));
    tokens.counted += i % 3 == 0 ? 0 : 1;
  }
  return tokens;
}

TEST(FineTuning, IgnoresPositionsWithoutATarget) {
  Tuned one(tiny_spec()), other(tiny_spec());
  auto tokens = rows_of_text(one.spec, 0, 2);
  const auto last = one.spec.seq - 1;  // of the first row: no later position sees it
  tokens.counted -= tokens.targets[last] == no_target ? 0 : 1;
  tokens.targets[last] = no_target;
  const auto record = one.trainer.train(tokens, {});
  tokens.inputs[last] = (tokens.inputs[last] + 1) % 256;
  EXPECT_EQ(other.trainer.train(tokens, {}).loss, record.loss);
  EXPECT_EQ(other.parameters(), one.parameters());
  tokens.inputs[0] = (tokens.inputs[0] + 1) % 256;
  EXPECT_NE(other.trainer.evaluate(tokens), one.trainer.evaluate(rows_of_text(one.spec, 0, 2)));
}

TEST(FineTuning, EvaluatesWithoutAnUpdate) {
  Tuned tuned(tiny_spec());
  const auto tokens = rows_of_text(tuned.spec, 0, 2);
  const auto before = tuned.parameters();
  const double loss = tuned.trainer.evaluate(tokens);
  EXPECT_EQ(tuned.trainer.evaluate(tokens), loss);
  EXPECT_EQ(tuned.parameters(), before);
  EXPECT_EQ(tuned.trainer.train(tokens, {}).loss, loss) << "the loss before the update";
  EXPECT_NE(tuned.parameters(), before);
  EXPECT_EQ(tuned.trainer.steps(), 1);
}

TEST(FineTuning, TakesTheMeanOverTargetsAlsoOfSeveralPasses) {
  auto spec = tiny_spec();
  Tuned together(spec);
  spec.batch = 1;
  spec.accumulation = 2;
  Tuned in_turn(spec);
  const auto tokens = rows_of_text(spec, 0, 2);  // the two rows have 8 targets each
  auto uneven = tokens;
  std::fill_n(uneven.targets.begin(), 10, no_target);
  uneven.counted = static_cast<double>(
      std::count_if(uneven.targets.begin(), uneven.targets.end(), [](int target) { return target >= 0; }));
  for (const auto& each : {tokens, uneven}) {
    const auto a = together.trainer.train(each, {.lr = 1e-3}), b = in_turn.trainer.train(each, {.lr = 1e-3});
    EXPECT_NEAR(a.loss, b.loss, 1e-12);
    EXPECT_NEAR(a.reduced.squared_norm, b.reduced.squared_norm, 1e-12 * a.reduced.squared_norm);
  }
}

TEST(FineTuning, IsTheSameOnTwoRanksAsOnOne) {
  for (const auto trains : {training::Trains::adapters, training::Trains::all}) {
    auto spec = tiny_spec();
    spec.trains = trains;
    Tuned alone(spec);
    const auto all = rows_of_text(spec, 0, 2);
    std::vector<training::Record> expected;
    for (int i = 0; i < 3; ++i) expected.push_back(alone.trainer.train(all, {.lr = 1e-3}));
    run_ranks(2, [&](Group& group) {
      auto part = spec;
      part.batch = 1;
      part.ranks = 2;
      part.rank = group.rank();
      Tuned tuned(part, &group);
      auto tokens = rows_of_text(part, static_cast<std::size_t>(group.rank()), 1);
      tokens.counted = all.counted;
      for (const auto& want : expected) {
        const auto got = tuned.trainer.train(tokens, {.lr = 1e-3});
        double loss = 0;
        group.sum(std::span<const double>(&got.loss, 1), std::span<double>(&loss, 1));
        EXPECT_NEAR(loss / 2, want.loss, 1e-9);
        EXPECT_NEAR(got.reduced.squared_norm, want.reduced.squared_norm, 1e-9 * want.reduced.squared_norm);
      }
    });
  }
}

TEST(FineTuning, ContinuesFromACheckpointBitForBit) {
  const TemporaryFolder folder;
  Tuned whole(tiny_spec()), first(tiny_spec()), second(tiny_spec());
  const auto train = [](Tuned& tuned, std::size_t begin, std::size_t end) {
    for (auto step = begin; step < end; ++step) {
      tuned.trainer.train(rows_of_text(tuned.spec, 2 * step, 2), {.lr = 1e-3 * static_cast<double>(step)});
    }
  };
  train(whole, 0, 8);
  train(first, 0, 5);
  first.trainer.write(folder.path());
  second.trainer.read(folder.path());
  EXPECT_EQ(second.trainer.steps(), 5);
  train(second, 5, 8);
  EXPECT_EQ(second.parameters(), whole.parameters());
}

TEST(FineTuning, IsABenchmarkThatRejectsWrongLosses) {
  auto spec = tiny_spec();
  spec.steps = 20;
  Tuned tuned(spec);
  const auto measure = [&] {
    tuned.work->reset();
    tuned.work->stage(2);
    tuned.work->enqueue();
    tuned.work->enqueue();
  };
  measure();
  EXPECT_TRUE(tuned.work->verify().passed()) << tuned.work->verify().first;
  const auto metrics = tuned.work->metrics();
  ASSERT_EQ(metrics.size(), 2);
  EXPECT_LT(metrics[0].second, 5.3) << "a guess among 256 tokens has the loss 5.55";
  EXPECT_LT(metrics[1].second, 5.3);
  tuned.work->corrupt();
  EXPECT_FALSE(tuned.work->verify().passed());
  measure();
  tuned.work->poison_input();
  tuned.work->stage(1);
  tuned.work->enqueue();
  EXPECT_FALSE(tuned.work->verify().passed());
}

}  // namespace
}  // namespace shakedown
