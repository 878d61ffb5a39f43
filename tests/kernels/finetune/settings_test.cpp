// The YAML of a fine-tuning.
#include "kernels/finetune/settings.hpp"

#include <gtest/gtest.h>

#include "base/temporary_folder.hpp"
#include "finetune_data.hpp"

namespace shakedown::finetune {
namespace {

class FinetuneSettingsTest : public testing::Test {
 protected:
  FinetuneSettings read(std::string_view text) const {
    write_file(path_, text);
    return read_settings(path_);
  }
  void expect_refused(std::string_view text, const char* words) const {
    const auto error = input_error_of([&] { read(text); });
    EXPECT_NE(error.find(words), std::string::npos) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }

  const TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "run.yaml";
};

TEST_F(FinetuneSettingsTest, ReadsAllSections) {
  const auto settings = read(R"(model: {folder: qwen, precision: f32}
lora: {rank: 8, alpha: 16, target_modules: [q_proj, down_proj], dropout: 0}
training:
  out: results
  learning_rate: 1e-3
  schedule: linear
  warmup_steps: 10
  weight_decay: 0.01
  clip_norm: 0
  steps: 100
  batch: 4
  accumulation: 2
  seed: 7
data: {file: train.jsonl, eval_file: eval.jsonl, sequence_length: 64, pack: false, shuffle: false}
distributed: {shard: optimizer}
)");
  EXPECT_EQ(settings.model, "qwen");
  EXPECT_EQ(settings.precision, Precision::f32);
  EXPECT_EQ(settings.lora.rank, 8U);
  EXPECT_EQ(settings.lora.alpha, 16);
  EXPECT_EQ(settings.lora.adapted, (std::array<bool, 7>{true, false, false, false, false, false, true}));
  EXPECT_EQ(settings.lr, 1e-3);
  EXPECT_EQ(settings.schedule, Schedule::linear);
  EXPECT_EQ(settings.clip_norm, 0);
  EXPECT_EQ(settings.steps, 100);
  EXPECT_EQ(settings.accumulation, 2U);
  EXPECT_EQ(settings.eval_data, "eval.jsonl");
  EXPECT_EQ(settings.seq, 64U);
  EXPECT_FALSE(settings.pack);
  EXPECT_EQ(settings.shard, training::Shard::optimizer);
  EXPECT_EQ(settings.beta2, 0.999);  // a default
}

TEST_F(FinetuneSettingsTest, RefusesUnknownKeysWithTheNearestName) {
  expect_refused("training: {leraning_rate: 1}\n",
                 "run.yaml:1:27: unknown key \"leraning_rate\" (did you mean learning_rate?)");
  expect_refused("trainig: {steps: 1}\n", "did you mean training?");
}

TEST_F(FinetuneSettingsTest, RefusesValuesThatCannotBe) {
  expect_refused("lora: {dropout: 0.1}\n", "dropout does not exist here; write 0 or remove the key");
  expect_refused("lora: {rank: 0}\n", "rank must be from 1 to");
  expect_refused("lora: {target_modules: []}\n", "must name a module");
  expect_refused("lora: {target_modules: [head]}\n", "\"head\" is not possible here");
  expect_refused("training: {learning_rate: fast}\n", "expected a number");
  expect_refused("training: {schedule: step}\n", "choose one of cosine, linear, constant");
  expect_refused("training: {steps: 3, epochs: 1}\n", "steps and epochs contradict each other");
  expect_refused("training: {epochs: 10001}\n", "epochs");
  expect_refused("training: {method: full}\nlora: {rank: 8}\n", "lora and the method full contradict");
  expect_refused("data: {eval_file: a, eval_share: 0.1}\n", "eval_file and eval_share contradict");
  expect_refused("data: [1]\n", "expected a map");
}

}  // namespace
}  // namespace shakedown::finetune
