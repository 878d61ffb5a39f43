// The settings and the examples of a fine-tuning, from its flags and files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "fixtures/plan/options.hpp"
#include "kernels/finetune/fine_tuning.hpp"
#include "kernels/finetune/model_config.hpp"

namespace shakedown::finetune {

/// Returns the settings of --config with those of the other flags. Without --config, weights and activations are f32 on
/// the host. `writes`: the output folder must be given. Errors: InputError for missing flags, and for flags that
/// contradict each other.
FinetuneSettings settings_of(const FinetuneFlags&, bool on_host, bool writes);

/// Returns the model. Errors: InputError if the sequences are longer than it permits.
ModelConfig model_of(const FinetuneSettings&);

/// Reads the examples. For an evaluation, all examples of the data are for that if there is no file for it. Errors:
/// InputError.
TrainingData read_data(const FinetuneSettings&, const ModelConfig&, bool evaluates);

/// Return the bytes of the files of examples (0 for those that cannot be read), and of the weights of a model folder.
/// Errors: InputError for the weights.
std::uintmax_t bytes_of_data(const FinetuneSettings&);
std::uintmax_t bytes_of_weights(const std::filesystem::path& folder);

/// Writes the tokens of the examples to OUT/NAME.tokens, which --data takes. Returns a line about the file. Errors:
/// InputError.
std::string prepare(const FinetuneSettings&, const ModelConfig&);

}  // namespace shakedown::finetune
