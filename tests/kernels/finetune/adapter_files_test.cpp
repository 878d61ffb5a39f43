// Adapters in the files of peft, and merged weights.
#include "kernels/finetune/adapter_files.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/temporary_folder.hpp"
#include "finetune_data.hpp"
#include "kernels/finetune/safetensors.hpp"

namespace shakedown::finetune {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using training::Module;

class AdapterFiles : public testing::Test {
 protected:
  AdapterFiles() {
    fs::create_directories(trained_);
    fs::copy_file(stored("lora_trained.safetensors"), trained_ / "adapter_model.safetensors");
    write_file(trained_ / "adapter_config.json", R"({"r": 8, "lora_alpha": 16})");
  }
  static std::vector<Adapter> views_of(const StoredAdapters& stored) {
    std::vector<Adapter> views;
    for (const auto& one : stored.adapters) views.push_back({one.layer, one.module, one.a, one.b});
    return views;
  }

  const TemporaryFolder folder_;
  const fs::path trained_ = folder_.path() / "trained", out_ = folder_.path() / "out";
};

TEST_F(AdapterFiles, WriteTheTensorsAndTheConfigurationOfPeft) {
  const auto adapters = read_adapters(trained_);
  EXPECT_EQ(adapters.lora.rank, 8U);
  EXPECT_EQ(adapters.lora.alpha, 16);
  EXPECT_EQ(adapters.adapters.size(), 14U);  // seven modules of two layers
  write_adapters(out_, adapters.lora, views_of(adapters), "models/tiny");
  const SafetensorsFile before(trained_ / "adapter_model.safetensors"), after(out_ / "adapter_model.safetensors");
  EXPECT_EQ(after.names(), before.names());
  for (const auto& name : before.names()) {
    EXPECT_EQ(after.at(name).shape, before.at(name).shape);
    EXPECT_TRUE(std::ranges::equal(after.at(name).bytes, before.at(name).bytes));
  }
  const auto config = Json::parse(read_file(out_ / "adapter_config.json"));
  EXPECT_EQ(config["peft_type"], "LORA");
  EXPECT_EQ(config["task_type"], "CAUSAL_LM");
  EXPECT_EQ(config["base_model_name_or_path"], "models/tiny");
  EXPECT_EQ(config["lora_alpha"].dump(), "16");
  EXPECT_EQ(config["target_modules"],
            Json({"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}));
}

TEST_F(AdapterFiles, MergeTheAdaptersIntoTheWeights) {
  const auto adapters = read_adapters(trained_);
  const auto base = stored("tiny_qwen2");
  write_merged(out_, base, adapters.lora, views_of(adapters));
  EXPECT_EQ(read_file(out_ / "tokenizer.json"), read_file(base / "tokenizer.json"));
  EXPECT_EQ(read_file(out_ / "config.json"), read_file(base / "config.json"));
  const SafetensorsFile before(base), after(out_);
  ASSERT_EQ(after.names(), before.names());
  const auto value = [](const SafetensorsFile& file, const std::string& name, std::size_t i) {
    const auto& tensor = file.at(name);
    std::vector<float> values(tensor.elements());
    to_floats(tensor, values);
    return static_cast<double>(values.at(i));
  };
  const SafetensorsFile peft(trained_ / "adapter_model.safetensors");
  const std::string v = "model.layers.1.self_attn.v_proj", down = "model.layers.0.mlp.down_proj";
  const auto check = [&](const std::string& name, std::size_t row, std::size_t column, std::size_t in) {
    double sum = value(before, name + ".weight", row * in + column);
    for (std::size_t r = 0; r < 8; ++r)
      sum += 16.0 / 8 * value(peft, "base_model.model." + name + ".lora_B.weight", row * 8 + r) *
             value(peft, "base_model.model." + name + ".lora_A.weight", r * in + column);
    EXPECT_NEAR(value(after, name + ".weight", row * in + column), sum, 1e-7);
    EXPECT_NE(value(after, name + ".weight", row * in + column), value(before, name + ".weight", row * in + column));
  };
  check(v, 0, 0, 64);
  check(v, 31, 63, 64);
  check(down, 5, 127, 128);
  for (const char* name : {"model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.bias", "model.norm.weight"})
    EXPECT_TRUE(std::ranges::equal(after.at(name).bytes, before.at(name).bytes)) << name;
  EXPECT_NE(input_error_of([&] { write_merged(base, base, adapters.lora, {}); }).find("model"), std::string::npos);
}

TEST_F(AdapterFiles, LeaveOtherTensorsAsTheyAre) {
  const auto base = folder_.path() / "base";
  fs::create_directories(base);
  const std::vector<std::int64_t> numbers{1, -1, std::int64_t{1} << 40};
  const std::vector<std::uint16_t> halves{0x7e01, 0xfc00, 0x7fff};  // NaNs keep their bits
  write_safetensors(base / "model.safetensors",
                    {{"model.numbers", {DType::i64, {3}, std::as_bytes(std::span(numbers))}},
                     {"model.halves", {DType::f16, {3}, std::as_bytes(std::span(halves))}}});
  write_merged(out_, base, {8, 16}, {});
  EXPECT_EQ(read_file(out_ / "model.safetensors"), read_file(base / "model.safetensors"));
}

TEST_F(AdapterFiles, AreRefusedIfTheyAreOfAnotherKind) {
  const auto expect = [&](const char* config, const char* words) {
    write_file(trained_ / "adapter_config.json", config);
    const auto error = input_error_of([&] { read_adapters(trained_); });
    EXPECT_NE(error.find(words), std::string::npos) << error;
  };
  expect("{", "has no r and lora_alpha");
  expect(R"({"r": 0, "lora_alpha": 16})", "has no r and lora_alpha");
  expect(R"({"r": 4, "lora_alpha": 16})", "does not have rank 4");
  expect(R"({"r": 8, "lora_alpha": 16, "use_dora": true})", "use_dora is not supported");
  for (const char* member : {"\"alpha_pattern\": {\"q_proj\": 8}", "\"rank_pattern\": {\"q_proj\": 4}",
                             "\"fan_in_fan_out\": true", "\"bias\": \"all\""}) {
    const auto word = std::string(member + 1, std::string(member).find(':') - 2);
    expect((R"({"r": 8, "lora_alpha": 16, )" + std::string(member) + "}").c_str(), word.c_str());
  }
  write_safetensors(trained_ / "adapter_model.safetensors", std::map<std::string, Tensor>{});
  expect(R"({"r": 8, "lora_alpha": 16})", "no adapters");
  const std::vector<float> values(8);
  const Tensor tensor{DType::f32, {8, 1}, std::as_bytes(std::span(values))};
  write_safetensors(trained_ / "adapter_model.safetensors", {{"base_model.model.lm_head.lora_A.weight", tensor}});
  expect(R"({"r": 8, "lora_alpha": 16})", "is no adapter of a linear module");
  write_safetensors(trained_ / "adapter_model.safetensors",
                    {{"base_model.model." + name_of(0, Module::q) + ".lora_A.weight", tensor}});
  expect(R"({"r": 8, "lora_alpha": 16})", "has only one of its two matrices");
}

}  // namespace
}  // namespace shakedown::finetune
