// Predicts the GPUs on which a training step fits, without a GPU. The memory of the step is planned to the byte by the
// code that allocates it; the memory of libraries is an estimate from measurements. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/transformer/step_spec.hpp"

namespace shakedown::training {

/// A GPU model and its memory in bytes, from its data sheet.
struct GpuKind {
  std::string_view name;
  double bytes;
};
/// From NVIDIA's data sheets; for a B300, the memory that the driver leaves. thresholds/*.yaml has each value with its
/// source.
inline constexpr GpuKind gpu_kinds[] = {
    {"H100", 80e9}, {"H100 NVL", 94e9}, {"H200", 141e9}, {"B200", 180e9}, {"B300", 270e9}};

/// Returns the memory of the context, kernels, NCCL, cuBLASLt and cuDNN. cuDNN's attention keeps a gradient of the
/// scores in bf16, heads x seq x seq per sequence. Everything else took 1.4 to 1.7 GB. Measured: GPT-2, 64 x 1024: 26.2
/// GB in use, of which 23.0 are the step and 1.6 those scores; LoRA on Qwen2-7B, 4 x 4096: 75.0, 69.5 and 3.8; Qwen2-7B
/// shared by two ranks, 1 x 4096: 98.4, 95.6 and 0.9.
double library_bytes(const TrainStepSpec&);

/// One way to share the state and to keep activations for the backward pass.
struct MemoryRow {
  Shard shard;
  Retain retain;
  double bytes;                             // per rank
  std::vector<std::string_view> fits = {};  // names of these GPUs, including the memory of libraries
};

/// Returns all combinations of sharding and retention for this step. Errors: std::invalid_argument for an unknown model
/// or invalid sizes.
std::vector<MemoryRow> memory_rows(TrainStepSpec);

/// Returns these rows as a table.
std::string memory_text(const TrainStepSpec&);

}  // namespace shakedown::training
