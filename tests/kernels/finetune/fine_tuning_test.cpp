// Whole runs of fine-tuning on a small model of two layers, made by transformers (tests/peers/huggingface_cases.py).
#include "kernels/finetune/fine_tuning.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/temporary_folder.hpp"
#include "kernels/backends.hpp"
#include "kernels/finetune/learning_rate.hpp"
#include "kernels/finetune/model_config.hpp"
#include "kernels/finetune/model_weights.hpp"
#include "kernels/transformer/finetune_spec.hpp"
#include "tests/kernels/finetune/finetune_data.hpp"
#include "tests/kernels/transformer/ranks.hpp"
#include "tests/nightly.hpp"

namespace shakedown::finetune {
namespace {

using training::Trainer;

/// The recipe of the stored curve.
FinetuneSettings stored_settings(const std::filesystem::path& out) {
  FinetuneSettings s;
  s.model = stored("tiny_qwen2");
  s.out = out;
  s.precision = Precision::f32;
  s.lora = {8, 16};
  s.lr = 1e-3;
  s.weight_decay = 0.01;
  s.warmup_steps = 10;
  s.steps = 100;
  s.batch = 4;
  s.seq = 64;
  s.pack = s.shuffle = false;
  return s;
}

const TrainingData& stored_data() {
  static const TrainingData data = [] {
    const Tokenizer tokenizer(stored("tiny_qwen2"));
    const auto read = [&](const char* name) { return read_examples(stored(name), tokenizer, ChatTemplate::none); };
    return TrainingData{read("curve/train.jsonl"), read("curve/eval.jsonl"), tokenizer.end_of_text()};
  }();
  return data;
}

StoredAdapters stored_adapters() {
  const SafetensorsFile file(stored("curve/lora_init.safetensors"));
  StoredAdapters all{{8, 16}, {}};
  for (std::size_t layer = 0; layer < 2; ++layer) {
    for (std::size_t m = 0; m < training::modules; ++m) {
      const auto module = static_cast<training::Module>(m);
      const auto read = [&](const char* which) {
        const auto& tensor = file.at("base_model.model." + name_of(layer, module) + which);
        std::vector<float> values(tensor.elements());
        to_floats(tensor, values);
        return values;
      };
      all.adapters.push_back({layer, module, read(".lora_A.weight"), read(".lora_B.weight")});
    }
  }
  return all;
}

/// A trainer on one rank with the weights of the settings.
struct Model {
  explicit Model(const FinetuneSettings& s, Group* ranks = nullptr,
                 std::optional<StoredAdapters> adapters = std::nullopt)
      : config(read_model_config(s.model)), device(host::open_device({})) {
    auto& group = ranks != nullptr ? *ranks : alone;
    const bool full = s.method == Method::full;
    work = device->prepare(FinetuneSpec{.model = "tiny_qwen2",
                                        .shape = config.shape,
                                        .lora = s.lora,
                                        .trains = full ? training::Trains::all : training::Trains::adapters,
                                        .batch = s.batch,
                                        .seq = s.seq,
                                        .accumulation = s.accumulation,
                                        .dtype = shakedown::DType::f32,
                                        .ranks = group.size(),
                                        .rank = group.rank()});
    work->connect(group);
    const ModelWeights weights(s.model, config.shape, s.lora, s.seed, std::move(adapters));
    trainer().set_weights(weights.values());
  }
  Trainer& trainer() { return dynamic_cast<Trainer&>(*work); }

  Alone alone;
  ModelConfig config;
  std::unique_ptr<Device> device;
  std::unique_ptr<Work> work;
};

/// Runs the steps up to `end`, and returns the losses of all steps.
std::vector<double> losses_of(FineTuning& run, std::optional<std::int64_t> end = std::nullopt) {
  std::vector<double> losses;
  run.run([&](const StepFigures& figures) { losses.push_back(figures.loss); }, end);
  return losses;
}

std::vector<std::vector<float>> parameters(Trainer& trainer) {
  std::vector<std::vector<float>> all;
  for (const auto& t : trainer.trained()) all.push_back(trainer.values(t));
  return all;
}

// The first 20 steps; the nightly test runs all steps, which takes 8 s of processor time.
TEST(FineTuningRun, FollowsTheCurveOfTorch) {
  const TemporaryFolder out;
  const auto settings = stored_settings(out.path());
  Model model(settings, nullptr, stored_adapters());
  FineTuning run(settings, stored_data(), model.trainer(), model.alone);
  const auto curve = nlohmann::json::parse(std::ifstream(stored("curve/curve_f32.json")));
  EXPECT_NEAR(run.evaluate(), curve.at("eval_before").get<double>(), 1e-4);
  double worst = 0, worst_norm = 0;
  std::optional<double> after;
  const std::int64_t end = testing_support::is_nightly() ? 100 : 20;
  std::int64_t steps = 0;
  const auto compare = [&](const StepFigures& figures) {
    const auto& want = curve.at("steps").at(steps++);
    worst = std::max(worst, std::abs(figures.loss / want.at("loss").get<double>() - 1));
    worst_norm = std::max(worst_norm, std::abs(figures.gradient_norm / want.at("grad_norm").get<double>() - 1));
    EXPECT_NEAR(figures.lr, want.at("lr").get<double>(), 1e-12);
    after = figures.eval_loss;
  };
  run.run(compare, end);
  EXPECT_EQ(steps, end);
  EXPECT_LT(worst, 0.01);
  EXPECT_LT(worst_norm, 0.02);
  if (testing_support::is_nightly()) {
    const auto want = curve.at("eval_after").get<double>();
    EXPECT_NEAR(after.value(), want, 0.01 * want);
  }
  RecordProperty("worst_loss", std::to_string(worst));
  RecordProperty("worst_norm", std::to_string(worst_norm));
}

TEST(FineTuningRun, ContinuesBitForBitAndRewritesItsLines) {
  const TemporaryFolder whole_out, cut_out;
  auto settings = stored_settings(whole_out.path());
  settings.steps = 6;
  settings.warmup_steps = 2;
  settings.shuffle = true;
  settings.save_steps = 3;
  settings.seq = 48;
  Model whole(settings);
  FineTuning uninterrupted(settings, stored_data(), whole.trainer(), whole.alone);
  auto losses = losses_of(uninterrupted);
  settings.out = cut_out.path();
  {
    Model first(settings);
    FineTuning run(settings, stored_data(), first.trainer(), first.alone);
    run.require_no_checkpoint();
    losses_of(run, 4);  // the fourth step is lost, because the checkpoint is of the third
    EXPECT_THROW(run.require_no_checkpoint(), InputError);
  }
  Model second(settings);
  FineTuning run(settings, stored_data(), second.trainer(), second.alone);
  run.resume();
  EXPECT_EQ(losses_of(run), std::vector(losses.begin() + 3, losses.end()));
  EXPECT_EQ(parameters(second.trainer()), parameters(whole.trainer()));
  std::vector<double> written;
  std::ifstream lines(cut_out.path() / "metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    written.push_back(nlohmann::json::parse(line).at("train/loss").get<double>());
  }
  EXPECT_EQ(written, losses);

  const TemporaryFolder other_base;
  const SafetensorsFile file(settings.model);
  std::map<std::string, Tensor> tensors;
  for (const auto& name : file.names()) tensors.emplace(name, file.at(name));
  auto& norm = tensors.at("model.norm.weight");
  std::vector<std::byte> changed(norm.bytes.begin(), norm.bytes.end());
  changed.back() ^= std::byte{1};
  norm.bytes = changed;
  write_safetensors(other_base.path() / "model.safetensors", tensors);
  auto base = settings;
  base.model = other_base.path();
  FineTuning of_other(base, stored_data(), second.trainer(), second.alone);
  const auto refusal = input_error_of([&] { of_other.resume(); });
  EXPECT_NE(refusal.find("weights"), std::string::npos) << refusal;

  settings.lr = 2e-3;
  FineTuning other(settings, stored_data(), second.trainer(), second.alone);
  try {
    other.resume();
    ADD_FAILURE() << "continued with another learning rate";
  } catch (const InputError& error) {
    const std::string line = error.what();
    EXPECT_TRUE(line.find(": lr ") != line.npos && line.find("0.002") != line.npos) << line;
  }
}

TEST(FineTuningRun, IsTheSameOnTwoRanksAsOnOne) {
  const TemporaryFolder one_out, two_out;
  auto settings = stored_settings(one_out.path());
  settings.steps = 4;
  settings.warmup_steps = 0;
  settings.seq = 48;
  Model model(settings);
  FineTuning run(settings, stored_data(), model.trainer(), model.alone);
  const auto expected = losses_of(run);
  const double evaluated = run.evaluate();
  settings.out = two_out.path();
  settings.batch = 1;
  settings.accumulation = 2;
  run_ranks(2, [&](Group& group) {
    Model part(settings, &group);
    FineTuning own(settings, stored_data(), part.trainer(), group);
    const auto losses = losses_of(own);
    ASSERT_EQ(losses.size(), expected.size());
    for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-5 * expected[i]);
    EXPECT_NEAR(own.evaluate(), evaluated, 1e-5 * evaluated);
  });
}

TEST(FineTuningRun, WritesWeightsThatAModelFolderLoads) {
  for (const auto method : {Method::lora, Method::full}) {
    const TemporaryFolder out;
    auto settings = stored_settings(out.path());
    settings.method = method;
    settings.steps = 6;
    settings.warmup_steps = 0;
    settings.seq = 48;
    Model model(settings);
    FineTuning run(settings, stored_data(), model.trainer(), model.alone);
    const double before = run.evaluate();
    losses_of(run);
    const double trained = run.evaluate();
    EXPECT_LT(trained, before - 0.05);
    save_model(out.path() / "model", model.trainer(), model.config.shape, settings.lora, settings.model);
    auto again = settings;
    again.method = Method::lora;  // without adapters to start from, B is zero
    again.model = out.path() / "model";
    Model merged(again);
    EXPECT_NEAR(FineTuning(again, stored_data(), merged.trainer(), merged.alone).evaluate(), trained, 1e-4);
    if (method == Method::full) continue;
    save_adapters(out.path() / "adapter", model.trainer(), settings.lora, settings.model);
    Model adapted(settings, nullptr, read_adapters(out.path() / "adapter"));
    EXPECT_EQ(FineTuning(settings, stored_data(), adapted.trainer(), adapted.alone).evaluate(), trained);
  }
}

TEST(FineTuningRun, NamesTheStepAndTheRankOfANumberThatIsNotFinite) {
  const TemporaryFolder out;
  auto settings = stored_settings(out.path());
  settings.lr = 1e30;
  settings.clip_norm = 0;
  settings.warmup_steps = 0;
  settings.seq = 48;
  Model model(settings);
  FineTuning run(settings, stored_data(), model.trainer(), model.alone);
  try {
    losses_of(run, 5);
    ADD_FAILURE() << "trained with an absurd rate";
  } catch (const Diverged& error) {
    const std::string line = error.what();
    EXPECT_TRUE(line.starts_with("step 2, rank 0: ") || line.starts_with("step 3, rank 0: ")) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos);
    EXPECT_NE(line.find("lower lr"), std::string::npos) << line;
  }
}

TEST(FineTuningRun, RefusesWeightsOfAnotherModel) {
  auto config = read_model_config(stored("tiny_qwen2"));
  config.shape.intermediate += 8;
  EXPECT_THROW(ModelWeights(stored("tiny_qwen2"), config.shape, {8, 16}, 1), InputError);
  config.shape.intermediate -= 8;
  EXPECT_THROW(ModelWeights(stored("tiny_qwen2"), config.shape, {4, 16}, 1, stored_adapters()), InputError);
  auto adapters = stored_adapters();
  auto beyond = adapters.adapters.front();
  beyond.layer = config.shape.layers;
  adapters.adapters.push_back(beyond);
  EXPECT_THROW(ModelWeights(stored("tiny_qwen2"), config.shape, {8, 16}, 1, adapters), InputError);
  // As many values in another shape, and a type without weights of as many values.
  const SafetensorsFile file(stored("tiny_qwen2"));
  std::map<std::string, Tensor> tensors;
  for (const auto& name : file.names()) tensors.emplace(name, file.at(name));
  const TemporaryFolder folder;
  const auto error = [&] {
    write_safetensors(folder.path() / "model.safetensors", tensors);
    return input_error_of([&] { ModelWeights(folder.path(), config.shape, {8, 16}, 1); });
  };
  EXPECT_EQ(error(), "");
  auto& embedding = tensors.at("model.embed_tokens.weight");
  std::swap(embedding.shape[0], embedding.shape[1]);
  EXPECT_NE(error().find("embed_tokens"), std::string::npos);
  std::swap(embedding.shape[0], embedding.shape[1]);
  embedding.dtype = DType::i32;
  EXPECT_NE(error().find("I32"), std::string::npos);
}

TEST(LearningRate, RisesInALineAndFallsAsTheScheduleSays) {
  FinetuneSettings s;
  s.lr = 1;
  s.warmup_steps = 10;
  EXPECT_EQ(learning_rate(s, 0, 110), 0);
  EXPECT_EQ(learning_rate(s, 5, 110), 0.5);
  EXPECT_EQ(learning_rate(s, 10, 110), 1);
  EXPECT_NEAR(learning_rate(s, 60, 110), 0.5, 1e-15);
  EXPECT_NEAR(learning_rate(s, 35, 110), 0.5 + 0.5 * std::sqrt(0.5), 1e-15);
  s.schedule = Schedule::linear;
  EXPECT_NEAR(learning_rate(s, 35, 110), 0.75, 1e-15);
  EXPECT_NEAR(learning_rate(s, 110, 110), 0, 1e-15);
  s.schedule = Schedule::constant;
  EXPECT_EQ(learning_rate(s, 109, 110), 1);
}

TEST(Rows, OfAllEpochsAreDividedAmongRanks) {
  std::vector<Example> examples;
  for (int i = 0; i < 5; ++i) examples.push_back({{10 * i, 10 * i + 1, 10 * i + 2}, {0, 1, 1}});
  const PackingOptions options{.seq = 4, .shuffle = false, .pack = false, .seed = 1, .padding = 99};
  RowStream rows(examples, options, AfterLastRow::next_epoch);
  EXPECT_EQ(rows.rows_in(1), 5);
  EXPECT_EQ(rows.rows_in(2.5), 13);
  Alone alone;
  const auto tokens = rows.tokens(1, 3, alone);  // the rows 3, 4 and 0
  EXPECT_EQ(tokens.inputs, (std::vector{30, 31, 32, 99, 40, 41, 42, 99, 0, 1, 2, 99}));
  constexpr int none = training::no_target;
  EXPECT_EQ(tokens.targets, (std::vector{31, 32, none, none, 41, 42, none, none, 1, 2, none, none}));
  EXPECT_EQ(tokens.counted, 6);
  run_ranks(2, [&](Group& group) {
    RowStream own(examples, options, AfterLastRow::empty);
    const auto last = own.tokens(2, 1, group);  // the rows 4 and 5, of which the second does not exist
    EXPECT_EQ(last.inputs.front(), group.rank() == 0 ? 40 : 99);
    EXPECT_EQ(last.counted, 2);
  });
}

}  // namespace
}  // namespace shakedown::finetune
