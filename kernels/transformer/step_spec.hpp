// A step of training a language model: of adapters beside frozen weights, or of every parameter.
#pragma once

#include "kernels/ops/operation.hpp"
#include "kernels/transformer/shape.hpp"

namespace shakedown {

/// One training step, data parallel over `ranks` ranks (the whole world): forward, backward, sum of the gradients,
/// AdamW, with random weights. `batch` sequences of `seq` tokens on each rank at a time, `accumulation` times per
/// update. All ranks get the same tokens, so that equal devices must compute the same bits, unless each has its own.
template <training::Trains trains>
struct StepSpec {
  static constexpr std::string_view family = trains == training::Trains::all ? "train_step" : "lora_step";
  static constexpr std::string_view description =
      trains == training::Trains::all ? "a step of training" : "a step of LoRA fine-tuning";

  std::string model;  // a training::preset
  int batch = 1, seq = 1;
  DType dtype = DType::bf16;  // of weights and activations; gradients and trainable parameters are f32, or f64 with f64
  int ranks = 1;
  int accumulation = 1;
  training::Retain retain = training::Retain::all;
  DType sums = DType::f32;  // in which the gradients travel between ranks; f64 if dtype is
  training::Data data = training::Data::same;
  training::Shard shard = training::Shard::none;
  /// Ranks of one host, neighbours, that compute the model together (training::part_of); the tokens are theirs
  /// together, and the `ranks` are so many times as many as train in parallel.
  int tp = 1;
  int rank = 0;            // this one: which share of what ranks share it has
  std::size_t bucket = 0;  // bytes of f32 gradients that are summed together, at least; 0: what is faster of a
                           // layer's, beside the backward pass, and nearly all of them at its end
};
using LoraStepSpec = StepSpec<training::Trains::adapters>;
using TrainStepSpec = StepSpec<training::Trains::all>;

/// lora_step/model:qwen2_7b/batch:2/seq:4096, and what is not the default
template <training::Trains trains>
std::string key(const StepSpec<trains>& s) {
  const StepSpec<trains> usual;
  Key key{std::string(s.family)};
  key.set("model", s.model).set_unless(usual.dtype, "dtype", s.dtype).set("batch", s.batch).set("seq", s.seq);
  key.set_unless(usual.accumulation, "accumulation", s.accumulation).set_unless(usual.retain, "retain", s.retain);
  key.set_unless(usual.sums, "sums", s.sums).set_unless(usual.bucket, "bucket", s.bucket);
  key.set_unless(usual.data, "data", s.data).set_unless(usual.shard, "shard", s.shard);
  return key.set_unless(usual.tp, "tp", s.tp).text();
}
/// Tokens of one step that count as this rank's: its part of those of the ranks that compute a model together.
template <training::Trains trains>
double tokens(const StepSpec<trains>& s) {
  return static_cast<double>(s.batch) * s.seq * s.accumulation / s.tp;
}
/// The same step with another value of one part of its key, "batch:64". Errors: InputError for a part or a value that
/// there is not.
template <training::Trains trains>
StepSpec<trains> with(StepSpec<trains>, const std::string& part);

/// The operations of the model (training::token_flops) for this rank's tokens, or its part of them; what is computed a
/// second time does not count.
template <training::Trains trains>
Cost cost(const StepSpec<trains>&);
template <training::Trains trains>
std::size_t footprint(const StepSpec<trains>&);

}  // namespace shakedown
