// Fine-tuning of a language model on data, with adapters or of all parameters.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/ops/operation.hpp"
#include "kernels/transformer/buffers.hpp"

namespace shakedown {

/// A short fine-tuning run, data parallel over `ranks` ranks, each of which has the whole model. A Work of it also is a
/// training::Trainer, which gets its weights and tokens from files.
struct FinetuneSpec {
  static constexpr std::string_view family = "finetune";
  static constexpr std::string_view description = "fine-tuning";

  std::string model;  // for the key: a training::preset or the folder of the weights
  training::TransformerShape shape{};
  training::LoraShape lora = training::no_adapters;
  training::Trains trains = training::Trains::adapters;
  std::size_t batch = 1, seq = 1;  // of a micro-batch
  std::size_t accumulation = 1;    // micro-batches per update
  DType dtype = DType::bf16;       // of weights and activations
  training::Retain retain = training::Retain::all;
  int ranks = 1, rank = 0;
  int steps = 20;                 // of one operation
  double rate = 1e-2;             // of learning, in an operation
  std::size_t logit_rows = 3584;  // as in StepSpec
};

/// Returns the key, such as finetune/model:tiny/batch:2/seq:16/steps:20.
std::string key(const FinetuneSpec&);
/// Counts the operations of all steps on this rank.
Cost cost(const FinetuneSpec&);
std::size_t footprint(const FinetuneSpec&);

namespace training {

/// Returns the step of a run. Errors: std::invalid_argument for incompatible settings.
StepShape step_shape(const FinetuneSpec&);
/// Returns the memory of a run, without the workspace of a backend. Errors: those of step_shape.
Plan planned(const FinetuneSpec&);

}  // namespace training

}  // namespace shakedown
