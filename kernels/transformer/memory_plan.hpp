// Predicts the GPUs on which a training step fits, without a GPU. The memory of the step is planned to the byte by the
// code that allocates it; the memory of libraries is an estimate from measurements. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "kernels/transformer/step_spec.hpp"

namespace shakedown::training {

/// A GPU model and its memory.
struct GpuKind {
  std::string name;
  double bytes;
};

/// Returns the memory of the context, kernels, NCCL, cuBLASLt and cuDNN. cuDNN's attention keeps a gradient of the
/// scores in bf16, heads x seq x seq per sequence. Everything else took 1.4 to 1.7 GB. Measured: GPT-2, 64 x 1024: 26.2
/// GB in use, of which 23.0 are the step and 1.6 those scores; LoRA on Qwen2-7B, 4 x 4096: 75.0, 69.5 and 3.8; Qwen2-7B
/// shared by two ranks, 1 x 4096: 98.4, 95.6 and 0.9.
double library_bytes(const TrainStepSpec&);

/// One way to share the state and to keep activations for the backward pass.
struct MemoryRow {
  Shard shard;
  Retain retain;
  double bytes;                        // memory of one rank
  std::vector<std::string> fits = {};  // the names of the GPUs that it fits, with the memory of libraries counted
};

/// Returns all combinations of sharding and retention for this step. Errors: std::invalid_argument for an unknown model
/// or invalid sizes.
std::vector<MemoryRow> memory_rows(TrainStepSpec, const std::vector<GpuKind>&);

/// Returns the largest batch with which the step fits into these bytes, whatever the batch of the spec; 0 if one
/// sequence does not fit.
long long largest_batch(TrainStepSpec, double bytes);

/// Returns these rows as a table; with `largest`, the largest batch on each GPU.
std::string memory_text(const TrainStepSpec&, const std::vector<GpuKind>&, bool largest = false);

}  // namespace shakedown::training
