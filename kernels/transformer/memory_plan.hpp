// Predicts the GPUs on which a training step fits, without a GPU. The memory of the step is planned to the byte by the
// code that allocates it; the memory of libraries is an estimate from measurements. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/transformer/arena.hpp"
#include "kernels/transformer/step_spec.hpp"

namespace shakedown::training {

/// A figure of a profile: the key of its row, and the place of its rule, such as thresholds/h200-sxm.yaml:62.
struct StoredFigure {
  double value = 0;
  std::string row, at;
};

/// A GPU model, its memory, and its figures that bound a decode; nullopt if its profile has none.
struct GpuKind {
  std::string name;
  double bytes;
  std::optional<StoredFigure> hbm_gb_per_s = {};
  /// The time of a small AllReduce, and the bus bandwidth of a large one, over the number of ranks of the plan.
  std::optional<StoredFigure> allreduce_us = {}, allreduce_gb_per_s = {};
  bool has_fp8 = false;  // its tensor cores multiply fp8
};

/// True if the tensor cores of this GPU multiply the type.
bool has_type(const GpuKind&, DType);

/// The memory that is left for the context, kernels and libraries, apart from cuDNN's attention.
inline constexpr double reserved_bytes = 2e9;

/// Returns the memory of the context, kernels, NCCL, cuBLASLt and cuDNN. cuDNN's attention keeps a gradient of the
/// scores in bf16, heads x seq x seq per sequence. Everything else took 1.4 to 1.7 GB. Measured: GPT-2, 64 x 1024: 26.2
/// GB in use, of which 23.0 are the step and 1.6 those scores; LoRA on Qwen2-7B, 4 x 4096: 75.0, 69.5 and 3.8; Qwen2-7B
/// shared by two ranks, 1 x 4096: 98.4, 95.6 and 0.9.
template <Trains trains = Trains::all>
double library_bytes(const std::type_identity_t<StepSpec<trains>>&);

/// One way to share the state and to keep activations for the backward pass.
struct MemoryRow {
  Shard shard;
  Retain retain;
  std::map<Use, std::size_t> by_use;
  double bytes;                        // memory of one rank on its GPU
  double host_bytes = 0;               // and on its host
  std::vector<std::string> fits = {};  // the names of the GPUs that it fits, with the memory of libraries counted
};

/// Returns all combinations of sharding and retention for this step. Errors: std::invalid_argument for an unknown
/// model, invalid sizes, or a type that the step does not support.
template <Trains trains = Trains::all>
std::vector<MemoryRow> memory_rows(std::type_identity_t<StepSpec<trains>>, const std::vector<GpuKind>&);

/// Returns the largest batch with which the step fits into these bytes, whatever the batch of the spec; 0 if one
/// sequence does not fit.
template <Trains trains = Trains::all>
long long largest_batch(std::type_identity_t<StepSpec<trains>>, double bytes);

/// Returns the largest number from 0 to 2^20 that fits, if each smaller number fits, too.
long long largest_that_fits(const std::function<bool(long long)>& fits);

/// Returns these rows as a table; with `largest`, the largest batch on each GPU.
template <Trains trains = Trains::all>
std::string memory_text(const std::type_identity_t<StepSpec<trains>>&, const std::vector<GpuKind>&,
                        bool largest = false);

/// Returns the same as JSON, in bytes.
template <Trains trains = Trains::all>
std::string memory_json(const std::type_identity_t<StepSpec<trains>>&, const std::vector<GpuKind>&,
                        bool largest = false);

/// Returns "40.5" for a number of bytes.
std::string in_gb(double bytes);

/// Returns a number of bytes for JSON.
std::uint64_t whole(double bytes);

}  // namespace shakedown::training
