// Which GPUs a training step fits on, before there are any: what it keeps, planned to the byte by the code that takes the
// memory, and beside it what libraries take, as it was measured. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/transformer/step_spec.hpp"

namespace shakedown::training {

/// What a GPU has, in bytes, as its data sheet says.
struct GpuKind {
  std::string_view name;
  double bytes;
};
/// NVIDIA's data sheets, of a B300 what the driver leaves; thresholds/*.yaml has each with its source.
inline constexpr GpuKind gpu_kinds[] = {
    {"H100", 80e9}, {"H100 NVL", 94e9}, {"H200", 141e9}, {"B200", 180e9}, {"B300", 270e9}};

/// What the context, kernels, NCCL, cuBLASLt and cuDNN take beside it. cuDNN's attention keeps a gradient of the scores in
/// bf16, heads x seq x seq of each sequence, and all else took 1.4 to 1.7 GB: of GPT-2, 64 x 1024, 26.2 GB were in use of
/// which 23.0 are the step's and 1.6 those scores; of LoRA on Qwen2-7B, 4 x 4096, 75.0, 69.5 and 3.8; of Qwen2-7B shared by
/// two ranks, 1 x 4096, 98.4, 95.6 and 0.9.
double library_bytes(const TrainStepSpec&);

/// One way of sharing the state and of keeping what the backward pass needs.
struct MemoryRow {
  Shard shard;
  Retain retain;
  double bytes;                             // of each rank
  std::vector<std::string_view> fits = {};  // on these GPUs, with libraries
};

/// All ways that this step could be taken in. Errors: std::invalid_argument for a model or sizes that there are not.
std::vector<MemoryRow> memory_rows(TrainStepSpec);

/// That as a table for people.
std::string memory_text(const TrainStepSpec&);

}  // namespace shakedown::training
