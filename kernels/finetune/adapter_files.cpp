#include "kernels/finetune/adapter_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "base/files.hpp"
#include "base/limited_json.hpp"
#include "base/parse_number.hpp"
#include "base/text.hpp"
#include "kernels/finetune/safetensors.hpp"

namespace shakedown::finetune {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using training::Module;

constexpr std::array<std::string_view, training::modules> projections{
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};
constexpr std::string_view prefix_of_peft = "base_model.model.";

std::string_view projection(Module module) { return projections.at(static_cast<std::size_t>(module)); }

void create_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw CannotWrite(folder.string() + ": cannot be created: " + error.message());
}

/// "model.layers.3.self_attn.q_proj" as layer and module; nullopt for other names.
std::optional<std::pair<std::size_t, Module>> place_of(std::string_view name) {
  constexpr std::string_view begin = "model.layers.";
  if (!name.starts_with(begin)) return std::nullopt;
  name.remove_prefix(begin.size());
  const auto dot = name.find('.');
  const auto layer = whole_number<std::size_t>(name.substr(0, dot));
  if (!layer || dot == std::string_view::npos) return std::nullopt;
  const auto found = std::find(projections.begin(), projections.end(), name.substr(dot + 1));
  if (found == projections.end()) return std::nullopt;
  return std::pair(*layer, static_cast<Module>(found - projections.begin()));
}

Json config_of(const training::LoraShape& lora, const std::string& base) {
  Json modules = Json::array();
  for (std::size_t m = 0; m < training::modules; ++m) {
    const auto name = projection(static_cast<Module>(m));
    if (lora.has(static_cast<Module>(m))) modules.push_back(name.substr(name.find('.') + 1));
  }
  const bool is_whole = lora.alpha == std::floor(lora.alpha);
  return {{"peft_type", "LORA"},
          {"task_type", "CAUSAL_LM"},
          {"base_model_name_or_path", base},
          {"r", lora.rank},
          {"lora_alpha", is_whole ? Json(static_cast<std::int64_t>(lora.alpha)) : Json(lora.alpha)},
          {"lora_dropout", 0.0},
          {"target_modules", modules},
          {"bias", "none"},
          {"fan_in_fan_out", false},
          {"inference_mode", true},
          {"use_rslora", false},
          {"use_dora", false},
          {"modules_to_save", nullptr}};
}

std::vector<float> floats_of(const Tensor& tensor) {
  std::vector<float> values(tensor.elements());
  to_floats(tensor, values);
  return values;
}

/// Adds scale B A to a matrix.
void add_product(std::span<float> weights, const Adapter& adapter, const training::LoraShape& lora) {
  const auto in = adapter.a.size() / lora.rank, out = adapter.b.size() / lora.rank;
  if (weights.size() != in * out) throw std::invalid_argument("an adapter does not have the sizes of its weights");
  std::vector<double> sums(in);
  for (std::size_t row = 0; row < out; ++row) {
    std::fill(sums.begin(), sums.end(), 0);
    for (std::size_t r = 0; r < lora.rank; ++r) {
      const double factor = lora.scale() * static_cast<double>(adapter.b[row * lora.rank + r]);
      for (std::size_t i = 0; i < in; ++i) sums[i] += factor * static_cast<double>(adapter.a[r * in + i]);
    }
    for (std::size_t i = 0; i < in; ++i)
      weights[row * in + i] = static_cast<float>(static_cast<double>(weights[row * in + i]) + sums[i]);
  }
}

/// Copies what is no file of weights: configuration, tokenizer, licence.
void copy_others(const fs::path& out, const fs::path& base) {
  constexpr std::array<std::string_view, 5> kinds{".json", ".txt", ".jinja", ".model", ".md"};
  for (const auto& entry : fs::directory_iterator(base)) {
    const auto kind = entry.path().extension().string();
    if (!entry.is_regular_file() || std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) continue;
    replace_file(out / entry.path().filename(), read_file(entry.path()));
  }
}

}  // namespace

std::string name_of(std::size_t layer, Module module) {
  return fmt::format("model.layers.{}.{}", layer, projection(module));
}

void write_adapters(const fs::path& folder, const training::LoraShape& lora, std::span<const Adapter> adapters,
                    const std::string& base) {
  create_folder(folder);
  std::map<std::string, Tensor> tensors;
  const auto rank = static_cast<std::int64_t>(lora.rank);
  for (const auto& [layer, module, a, b] : adapters) {
    const auto in = static_cast<std::int64_t>(a.size() / lora.rank),
               out = static_cast<std::int64_t>(b.size() / lora.rank);
    const auto name = fmt::format("{}{}", prefix_of_peft, name_of(layer, module));
    tensors.emplace(name + ".lora_A.weight", Tensor{DType::f32, {rank, in}, std::as_bytes(a)});
    tensors.emplace(name + ".lora_B.weight", Tensor{DType::f32, {out, rank}, std::as_bytes(b)});
  }
  write_safetensors(folder / "adapter_model.safetensors", tensors);
  replace_file(folder / "adapter_config.json", config_of(lora, base).dump(2) + "\n");
}

StoredAdapters read_adapters(const fs::path& folder) {
  const auto config = folder / "adapter_config.json";
  const auto refuse = [&](const std::string& what) { throw InputError(config.string() + ": " + what); };
  const auto json = limited_json<Json>(read_file(config));
  if (!json.is_object() || !json.contains("r") || !json["r"].is_number_unsigned() || json["r"] == 0 ||
      !json.contains("lora_alpha") || !json["lora_alpha"].is_number())
    refuse("has no r and lora_alpha; name a folder with LoRA adapters");
  for (const char* name : {"use_dora", "use_rslora"}) {
    if (json.contains(name) && json[name] == true) refuse(fmt::format("{} is not supported; use other adapters", name));
  }
  for (const char* name : {"alpha_pattern", "rank_pattern"}) {
    if (json.contains(name) && !json[name].empty())
      refuse(fmt::format("{} is not supported; use adapters of one rank and alpha", name));
  }
  if (json.contains("fan_in_fan_out") && json["fan_in_fan_out"] == true)
    refuse("fan_in_fan_out is not supported; use adapters of linear modules");
  if (json.contains("bias") && json["bias"] != "none") refuse("bias is not supported; use adapters with bias none");
  StoredAdapters stored{{json["r"].get<std::size_t>(), json["lora_alpha"].get<double>(), {}}, {}};
  const SafetensorsFile file(folder / "adapter_model.safetensors");
  std::map<std::pair<std::size_t, Module>, StoredAdapters::One> sorted;
  for (const auto& name : file.names()) {
    constexpr std::string_view a = ".lora_A.weight", b = ".lora_B.weight";
    const auto is_a = name.ends_with(a);
    const auto place = name.starts_with(prefix_of_peft) && (is_a || name.ends_with(b))
                           ? place_of(std::string_view(name).substr(prefix_of_peft.size(),
                                                                    name.size() - prefix_of_peft.size() - a.size()))
                           : std::nullopt;
    if (!place) refuse(fmt::format("tensor {} is no adapter of a linear module; use other adapters", one_line(name)));
    const auto& tensor = file.at(name);
    if (tensor.shape.size() != 2 || tensor.shape[is_a ? 0 : 1] != static_cast<std::int64_t>(stored.lora.rank))
      refuse(fmt::format("tensor {} does not have rank {}; use the files of one training", one_line(name),
                         stored.lora.rank));
    if (!is_float(tensor.dtype))
      refuse(fmt::format("tensor {} is {}; use adapters of F32, F16 or BF16", one_line(name),
                         shakedown::name(tensor.dtype)));
    auto& one = sorted[*place];
    (is_a ? one.a : one.b) = floats_of(tensor);
    stored.lora.adapted.at(static_cast<std::size_t>(place->second)) = true;
  }
  for (auto& [place, one] : sorted) {
    if (one.a.empty() || one.b.empty())
      refuse(fmt::format("{} has only one of its two matrices; use the files of one training",
                         name_of(place.first, place.second)));
    stored.adapters.push_back({place.first, place.second, std::move(one.a), std::move(one.b)});
  }
  if (stored.adapters.empty()) refuse("adapter_model.safetensors has no adapters; name another folder");
  return stored;
}

void write_model(const fs::path& out, const fs::path& base, const Changes& changes,
                 const std::function<void()>& while_working) {
  create_folder(out);
  if (fs::equivalent(out, base)) throw InputError(out.string() + ": is the folder of the model; name another folder");
  for (const auto& path : SafetensorsFile(base).files()) {
    const SafetensorsFile file(path);
    std::vector<NamedTensor> tensors;
    for (const auto& name : file.names()) tensors.push_back({name, file.at(name).dtype, file.at(name).shape});
    write_safetensors(out / path.filename(), tensors, [&](std::size_t i) {
      const auto& tensor = file.at(tensors[i].name);
      const auto change = changes.find(tensors[i].name);
      while_working();
      if (change == changes.end()) return std::vector(tensor.bytes.begin(), tensor.bytes.end());
      auto values = floats_of(tensor);
      change->second(values);
      return from_floats(values, tensor.dtype);
    });
  }
  copy_others(out, base);
}

void write_merged(const fs::path& out, const fs::path& base, const training::LoraShape& lora,
                  std::span<const Adapter> adapters, const std::function<void()>& while_working) {
  Changes changes;
  for (const auto& adapter : adapters)
    changes.emplace(name_of(adapter.layer, adapter.module) + ".weight",
                    [&](std::span<float> values) { add_product(values, adapter, lora); });
  write_model(out, base, changes, while_working);
}

}  // namespace shakedown::finetune
