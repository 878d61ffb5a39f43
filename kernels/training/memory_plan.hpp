// Which GPUs a training step fits on, before there are any: planned to the byte by the code that takes the memory.
// Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/ops/training_step.hpp"

namespace shakedown::training {

/// What a GPU has, in bytes, as its data sheet says.
struct GpuKind {
  std::string_view name;
  double bytes;
};
/// NVIDIA's data sheets, of a B300 what the driver leaves; thresholds/*.yaml has each with its source.
inline constexpr GpuKind gpu_kinds[] = {
    {"H100", 80e9}, {"H100 NVL", 94e9}, {"H200", 141e9}, {"B200", 180e9}, {"B300", 270e9}};

/// What the context, kernels, NCCL, cuBLASLt and cuDNN take beside it: 1.2 to 1.8 GB where it was measured
/// (docs/training_step.md).
inline constexpr double library_bytes = 2e9;

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
