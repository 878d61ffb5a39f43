// The weights of a model folder as the tensors of a training step, and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/finetune/adapter_files.hpp"
#include "kernels/finetune/safetensors.hpp"
#include "kernels/transformer/trainer.hpp"

namespace shakedown::finetune {

/// A range of a step's tensor that is one tensor of a model folder: q, k and v have one matrix in a step.
struct NamedRange {
  std::string name;  // "model.layers.0.self_attn.q_proj.weight"
  std::size_t first, count;
  std::vector<std::int64_t> shape;
};
/// Returns the ranges of a tensor without adapters, in order.
std::vector<NamedRange> named_ranges(const training::TransformerShape&, const training::ParameterTensor&);

/// The initial values of a training.
class ModelWeights {
 public:
  /// Without `adapters`, B is zero, and A is uniform within 1 / sqrt(in) as in peft. Errors: InputError if a tensor of
  /// the model or of the adapters is missing or has another size.
  ModelWeights(const std::filesystem::path& folder, const training::TransformerShape&, const training::LoraShape&,
               std::uint64_t seed, std::optional<StoredAdapters> adapters = std::nullopt);

  /// The object must outlive the function.
  training::TensorValues values() const;

 private:
  void copy(const training::ParameterTensor&, std::size_t first, std::span<float> out) const;
  void copy_adapter(const training::ParameterTensor&, std::size_t first, std::span<float> out) const;
  void require_all(const training::LoraShape&) const;
  const std::vector<float>* stored(const training::ParameterTensor&) const;

  std::filesystem::path folder_;
  SafetensorsFile file_;
  training::TransformerShape shape_;
  std::uint64_t seed_;
  std::optional<StoredAdapters> adapters_;
};

/// Writes the adapters of a trainer as peft reads them. Errors: CannotWrite.
void save_adapters(const std::filesystem::path& folder, training::Trainer&, const training::LoraShape&,
                   const std::filesystem::path& base);
/// Writes the model folder `base` with the trained weights of a trainer, merged if they are adapters. Calls
/// `while_working` after each tensor. Errors: InputError, CannotWrite.
void save_model(
    const std::filesystem::path& folder, training::Trainer&, const training::TransformerShape&,
    const training::LoraShape&, const std::filesystem::path& base, const std::function<void()>& while_working = [] {});

}  // namespace shakedown::finetune
