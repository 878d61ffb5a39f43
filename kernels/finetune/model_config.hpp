// config.json of a Hugging Face model folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "kernels/transformer/shape.hpp"

namespace shakedown::finetune {

enum class Architecture { qwen2, llama };
constexpr auto words(Architecture) { return names("qwen2", "llama"); }

struct ModelConfig {
  Architecture architecture;
  training::TransformerShape shape;
  std::size_t max_positions;
};

/// Reads FOLDER/config.json. Errors: InputError for other architectures, and for values that change the computation but
/// are not supported: scaled rotary positions, windows of attention, other activations and biases.
ModelConfig read_model_config(const std::filesystem::path& folder);

}  // namespace shakedown::finetune
