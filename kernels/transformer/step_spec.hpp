// A training step of a language model: of adapters with frozen weights, or of all parameters.
#pragma once

#include "kernels/ops/operation.hpp"
#include "kernels/transformer/shape.hpp"

namespace shakedown {

/// One training step, data parallel over `ranks` ranks (the whole world): forward, backward, sum of the gradients,
/// AdamW, with random weights. Each rank processes `batch` sequences of `seq` tokens at a time, `accumulation` times
/// per update. By default all ranks get the same tokens, so that equal devices must compute the same bits; optionally
/// each rank has its own.
template <training::Trains trains>
struct StepSpec {
  static constexpr std::string_view family = trains == training::Trains::all ? "train_step" : "lora_step";
  static constexpr std::string_view description =
      trains == training::Trains::all ? "a step of training" : "a step of LoRA fine-tuning";

  std::string model;  // a training::preset
  int batch = 1, seq = 1;
  /// Type of weights and activations; gradients and trainable parameters are f32, or f64 with f64. fp8_e4m3: products
  /// of the layers' weights in fp8 (StepShape::quantized); the rest is bf16 (host: f32).
  DType dtype = DType::bf16;
  int ranks = 1;
  int accumulation = 1;
  training::Retain retain = training::Retain::all;
  DType sums = DType::f32;  // type of gradients in transfers between ranks; f64 if dtype is
  training::Data data = training::Data::same;
  training::Shard shard = training::Shard::none;
  /// Type of the parameters that are updated, and of their moments; f64 if dtype is. bf16: the weights are their own
  /// masters, and an update rounds them and the moments stochastically (rounding.hpp).
  DType masters = DType::f32;
  training::StateMemory state = training::StateMemory::device;
  /// Size of a tensor parallel group (training::part_of): neighbouring ranks of one host that compute the model and its
  /// tokens together. `ranks` includes all of them, so ranks / tp groups train in parallel.
  int tp = 1;
  int rank = 0;            // this rank; selects its share of the sharded state
  std::size_t bucket = 0;  // minimum bytes of f32 gradients per sum; 0: the faster of one layer's during the backward
                           // pass and nearly all of them at its end
  std::size_t logit_rows = 3584;  // rows of logits in memory at a time, if adapters are trained; a GPU has its own
                                  // number (kernels/gpu_sizes.hpp)
};
using LoraStepSpec = StepSpec<training::Trains::adapters>;
using TrainStepSpec = StepSpec<training::Trains::all>;

/// lora_step/model:qwen2_7b/batch:2/seq:4096, and settings that differ from the default
template <training::Trains trains>
std::string key(const StepSpec<trains>& s) {
  const StepSpec<trains> usual;
  Key key{std::string(s.family)};
  key.set("model", s.model);
  if (s.dtype != usual.dtype) key.set("dtype", s.dtype == DType::fp8_e4m3 ? "fp8" : name(s.dtype));
  key.set("batch", s.batch).set("seq", s.seq);
  key.set_unless(usual.accumulation, "accumulation", s.accumulation).set_unless(usual.retain, "retain", s.retain);
  key.set_unless(usual.sums, "sums", s.sums).set_unless(usual.bucket, "bucket", s.bucket);
  key.set_unless(usual.data, "data", s.data).set_unless(usual.shard, "shard", s.shard);
  key.set_unless(usual.masters, "masters", s.masters).set_unless(usual.state, "state", s.state);
  return key.set_unless(usual.tp, "tp", s.tp).text();
}
/// Returns the tokens of one step that count for this rank: its part of the tokens of its tensor parallel group.
template <training::Trains trains>
double tokens(const StepSpec<trains>& s) {
  return static_cast<double>(s.batch) * s.seq * s.accumulation / s.tp;
}
/// Returns the same step with another value for one part of its key, such as "batch:64". Errors: InputError for an
/// unknown part or value.
template <training::Trains trains>
StepSpec<trains> with(StepSpec<trains>, const std::string& part);

/// Counts the operations of the model (training::token_flops) for this rank's tokens, or its part of them, without
/// recomputation.
template <training::Trains trains>
Cost cost(const StepSpec<trains>&);
template <training::Trains trains>
std::size_t footprint(const StepSpec<trains>&);

}  // namespace shakedown
