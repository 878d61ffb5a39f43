// The settings of a fine-tuning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/names.hpp"
#include "kernels/transformer/shape.hpp"

namespace shakedown::finetune {

/// The learning rate after the warm-up: falls to 0 as half a cosine or in a line, or stays.
enum class Schedule { cosine, linear, constant };
constexpr auto words(Schedule) { return names("cosine", "linear", "constant"); }

enum class Method { lora, full };
constexpr auto words(Method) { return names("lora", "full"); }

/// The type of weights and activations.
enum class Precision { f32, bf16 };
constexpr auto words(Precision) { return names("f32", "bf16"); }

struct FinetuneSettings {
  std::filesystem::path model;      // model: folder
  std::filesystem::path data;       // data: file
  std::filesystem::path eval_data;  // data: eval_file; empty if eval_share is used
  std::filesystem::path out;        // training: out

  Method method = Method::lora;
  Precision precision = Precision::bf16;
  training::LoraShape lora{16, 32, {true, true, true, true, true, true, true}};

  double lr = 2e-4;
  Schedule schedule = Schedule::cosine;
  std::int64_t warmup_steps = 0;
  double weight_decay = 0;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // of AdamW
  double clip_norm = 1;                               // 0: no clipping

  double epochs = 1;
  std::optional<std::int64_t> steps;  // instead of epochs
  std::size_t batch = 1;              // rows of a rank in one pass
  std::size_t accumulation = 1;       // passes of a step
  std::size_t seq = 2048;
  bool pack = true, shuffle = true;
  double eval_share = 0;  // the last part of the data
  std::uint64_t seed = 1;

  training::Shard shard = training::Shard::none;  // distributed: shard

  std::int64_t log_steps = 1;
  std::int64_t eval_steps = 0;  // 0: only at the end
  std::int64_t save_steps = 0;  // 0: only at the end
};

/// Reads a YAML file with the sections model, lora, training, data and distributed; a key that is missing has its
/// default. Errors: InputError "file:line:column: what is wrong" for unknown keys, with the nearest one, for values out
/// of range, and for features that do not exist, such as dropout.
FinetuneSettings read_settings(const std::filesystem::path&);

}  // namespace shakedown::finetune
