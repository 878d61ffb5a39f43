// config.json of model folders.
#include "kernels/finetune/model_config.hpp"

#include <gtest/gtest.h>

#include "base/temporary_folder.hpp"
#include "finetune_data.hpp"

namespace shakedown::finetune {
namespace {

using Json = nlohmann::json;

TEST(FinetuneModelConfig, ReadsTheFilesOfTransformers) {
  const auto [architecture, shape, positions] = read_model_config(stored("tiny_qwen2"));
  EXPECT_EQ(architecture, Architecture::qwen2);
  EXPECT_EQ(positions, 512U);
  EXPECT_EQ(shape.layers, 2U);
  EXPECT_EQ(shape.hidden, 64U);
  EXPECT_EQ(shape.heads, 2U);
  EXPECT_EQ(shape.kv_heads, 1U);
  EXPECT_EQ(shape.head_dim, 32U);
  EXPECT_EQ(shape.intermediate, 128U);
  EXPECT_EQ(shape.vocab, 1024U);
  EXPECT_EQ(shape.rope_theta, 1e6);
  EXPECT_EQ(shape.norm_eps, 1e-6);
  EXPECT_TRUE(shape.tied);
  EXPECT_TRUE(shape.qkv_bias);
  const auto llama = read_model_config(stored("tiny_llama"));
  EXPECT_EQ(llama.architecture, Architecture::llama);
  EXPECT_FALSE(llama.shape.tied);
  EXPECT_FALSE(llama.shape.qkv_bias);
}

TEST(FinetuneModelConfig, RefusesWhatItDoesNotCompute) {
  const TemporaryFolder folder;
  const auto good = Json::parse(read_file(stored("tiny_llama/config.json")));
  const auto error = [&](const Json& changes) {
    auto json = good;
    json.merge_patch(changes);
    write_file(folder.path() / "config.json", json.dump());
    return input_error_of([&] { read_model_config(folder.path()); });
  };
  EXPECT_EQ(error(Json::object()), "");
  EXPECT_EQ(error({{"rope_parameters", nullptr}, {"rope_theta", 5e5}, {"rope_scaling", nullptr}}),
            "");  // transformers 4
  EXPECT_EQ(read_model_config(folder.path()).shape.rope_theta, 5e5);
  const auto expect = [&](const char* words, const Json& changes) {
    const auto text = error(changes);
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  expect("model_type \"mixtral\" is not supported", {{"model_type", "mixtral"}});
  expect("hidden_act \"gelu\" is not supported", {{"hidden_act", "gelu"}});
  expect("attention_bias is not supported", {{"attention_bias", true}});
  expect("use_sliding_window is not supported", {{"use_sliding_window", true}});
  expect("rope_scaling llama3 is not supported", {{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8}}}});
  expect("rope_scaling linear is not supported", {{"rope_scaling", {{"type", "linear"}, {"factor", 2}}}});
  expect("rope_scaling of an unknown kind", {{"rope_scaling", 2}});
  expect("rope_parameters yarn is not supported", {{"rope_parameters", {{"rope_type", "yarn"}}}});
  expect("hidden_size must be a whole number above 0", {{"hidden_size", -1}});
  expect("hidden_size must be a whole number above 0", {{"hidden_size", nullptr}});
  expect("hidden_size must be a whole number above 0", {{"hidden_size", 1e300}});
  expect("num_hidden_layers", {{"num_hidden_layers", 4097}});
  expect("vocab_size", {{"vocab_size", (1 << 24) + 1}});
  auto deep = Json::array();
  for (int i = 0; i < 100; ++i) deep = Json::array({deep});
  expect("JSON", {{"deep", deep}});
  expect("rms_norm_eps must be a number above 0", {{"rms_norm_eps", "small"}});
  expect("the heads must have an even size", {{"num_key_value_heads", 3}});
  expect("tie_word_embeddings must be true or false", {{"tie_word_embeddings", 1}});
  write_file(folder.path() / "config.json", "{");
  EXPECT_THROW(read_model_config(folder.path()), InputError);
}

}  // namespace
}  // namespace shakedown::finetune
