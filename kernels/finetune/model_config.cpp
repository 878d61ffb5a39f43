#include "kernels/finetune/model_config.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/archive.hpp"
#include "base/files.hpp"
#include "base/text.hpp"

namespace shakedown::finetune {

namespace {

using SortedJson = nlohmann::json;

// No published model is near these limits; sizes within them have products that do not overflow.
constexpr std::int64_t max_layers = 4096, max_width = 1 << 24;

/// The members of config.json.
class Config {
 public:
  explicit Config(std::filesystem::path file) : file_(std::move(file)) {
    json_ = document_of_text(read_file(file_));
    if (!json_.is_object()) refuse("is not a JSON object; download it again");
  }

  [[noreturn]] void refuse(const std::string& what) const { throw InputError(file_.string() + ": " + what); }

  bool has(const char* name) const { return json_.contains(name) && !json_[name].is_null(); }

  std::size_t size(const char* name, std::int64_t largest = max_width) const {
    const auto& value = has(name) ? json_[name] : SortedJson();
    if (!value.is_number_integer() || value.get<std::int64_t>() < 1 || value.get<std::int64_t>() > largest)
      refuse(fmt::format("{} must be a whole number above 0 and at most {}; download it again", name, largest));
    return value.get<std::size_t>();
  }
  std::size_t size_or(const char* name, std::size_t other) const { return has(name) ? size(name) : other; }

  static double positive(const Config& config, const SortedJson& value, const char* name) {
    if (!value.is_number() || !(value.get<double>() > 0) || !std::isfinite(value.get<double>()))
      config.refuse(fmt::format("{} must be a number above 0; download it again", name));
    return value.get<double>();
  }
  double positive(const char* name) const { return positive(*this, has(name) ? json_[name] : SortedJson(), name); }

  std::string word(const char* name) const {
    return has(name) && json_[name].is_string() ? json_[name].get<std::string>() : "";
  }
  bool flag(const char* name, bool otherwise) const {
    if (!has(name)) return otherwise;
    if (!json_[name].is_boolean()) refuse(fmt::format("{} must be true or false; download it again", name));
    return json_[name].get<bool>();
  }
  void require_absent(const char* name) const {
    if (flag(name, false)) refuse(fmt::format("{} is not supported; use a model without it", name));
  }

  /// transformers 5 has rope_parameters, older versions rope_theta and rope_scaling.
  double rope_theta() const {
    for (const char* name : {"rope_scaling", "rope_parameters"}) {
      if (!has(name)) continue;
      const auto& rope = json_[name];
      const char* member = rope.contains("rope_type") ? "rope_type" : "type";
      const auto kind = rope.is_object() && rope.contains(member) ? rope[member] : SortedJson("of an unknown kind");
      if (kind != "default")
        refuse(fmt::format("{} {} is not supported; use a model without scaled positions", name,
                           one_line(kind.is_string() ? kind.get<std::string>() : kind.dump())));
      if (rope.contains("rope_theta")) return positive(*this, rope["rope_theta"], "rope_theta");
    }
    constexpr double default_theta = 10'000;  // of transformers
    return has("rope_theta") ? positive("rope_theta") : default_theta;
  }

 private:
  std::filesystem::path file_;
  SortedJson json_;
};

}  // namespace

ModelConfig read_model_config(const std::filesystem::path& folder) {
  const Config config(folder / "config.json");
  const auto type = config.word("model_type");
  const auto architecture = named<Architecture>(type);
  if (!architecture)
    config.refuse(fmt::format("model_type \"{}\" is not supported; use a Qwen2 or Llama model", one_line(type)));
  if (config.word("hidden_act") != "silu")
    config.refuse(
        fmt::format("hidden_act \"{}\" is not supported; use a model with silu", one_line(config.word("hidden_act"))));
  for (const char* name : {"use_sliding_window", "attention_bias", "mlp_bias"}) config.require_absent(name);
  training::TransformerShape shape{};
  shape.layers = config.size("num_hidden_layers", max_layers);
  shape.hidden = config.size("hidden_size");
  shape.heads = config.size("num_attention_heads");
  shape.kv_heads = config.size_or("num_key_value_heads", shape.heads);
  shape.head_dim = config.size_or("head_dim", shape.hidden / shape.heads);
  shape.intermediate = config.size("intermediate_size");
  shape.vocab = config.size("vocab_size");
  shape.norm_eps = config.positive("rms_norm_eps");
  shape.rope_theta = config.rope_theta();
  shape.qkv_bias = *architecture == Architecture::qwen2;
  shape.tied = config.flag("tie_word_embeddings", false);
  if (shape.head_dim == 0 || shape.head_dim % 2 != 0 || shape.heads % shape.kv_heads != 0)
    config.refuse("the heads must have an even size and be a multiple of num_key_value_heads; download it again");
  return {*architecture, shape, config.size("max_position_embeddings", std::numeric_limits<std::int32_t>::max())};
}

}  // namespace shakedown::finetune
