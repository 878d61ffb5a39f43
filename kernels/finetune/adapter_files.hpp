// LoRA adapters in the files of peft (github.com/huggingface/peft), and model folders with changed weights.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/transformer/shape.hpp"

namespace shakedown::finetune {

/// The adapter of a module: A is rank x in, B is out x rank, both in row-major order.
struct Adapter {
  std::size_t layer;
  training::Module module;
  std::span<const float> a, b;
};

/// Returns the name of a module's weights without ".weight": "model.layers.3.self_attn.q_proj".
std::string name_of(std::size_t layer, training::Module);

/// Writes adapter_config.json and adapter_model.safetensors (F32). Creates the folder. `base` names the folder of the
/// model. Errors: CannotWrite.
void write_adapters(const std::filesystem::path& folder, const training::LoraShape&, std::span<const Adapter>,
                    const std::string& base);

/// Adapters that were read, with the same order of layers and modules.
struct StoredAdapters {
  training::LoraShape lora;
  struct One {
    std::size_t layer;
    training::Module module;
    std::vector<float> a, b;
  };
  std::vector<One> adapters;
};
/// Reads the files of write_adapters or peft. Errors: InputError.
StoredAdapters read_adapters(const std::filesystem::path& folder);

/// By the name of a tensor: changes its values.
using Changes = std::map<std::string, std::function<void(std::span<float> values)>, std::less<>>;
/// Writes the model of folder `base` to folder `out` with the same files of weights and types, and copies its other
/// files. Tensors without a change keep their bytes, whatever their type. Calls `while_working` after each tensor.
/// Errors: InputError, CannotWrite.
void write_model(
    const std::filesystem::path& out, const std::filesystem::path& base, const Changes&,
    const std::function<void()>& while_working = [] {});

/// Writes the model with W + (alpha / rank) B A instead of W.
void write_merged(
    const std::filesystem::path& out, const std::filesystem::path& base, const training::LoraShape&,
    std::span<const Adapter>, const std::function<void()>& while_working = [] {});

}  // namespace shakedown::finetune
