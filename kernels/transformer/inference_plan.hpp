// Predicts the GPUs on which a decode fits, and its tokens/s, without a GPU. The memory is planned to the byte by the
// code that allocates it; the time is computed from stored figures. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/transformer/decode_spec.hpp"
#include "kernels/transformer/memory_plan.hpp"

namespace shakedown::training {

/// A model that a number of ranks decode together by tensor parallelism, with each batch and each context.
struct InferenceOrder {
  std::string model;
  DType dtype = DType::bf16;
  int ranks = 1;
  std::vector<int> batches = {1, 16, 64}, contexts = {4096, 131072};
};

struct InferenceRow {
  DecodeSpec spec;
  std::map<Use, std::size_t> by_use;
  double bytes;  // memory of one rank
};

/// Returns one row for each batch and context. Errors: std::invalid_argument for an unknown model or one that is not
/// like Llama, ranks that do not divide it, and batches that no GPU decodes in this type.
std::vector<InferenceRow> inference_rows(const InferenceOrder&);

/// True if this GPU has the type of the decode, and its memory is enough for the row and for libraries.
bool fits(const InferenceRow&, const GpuKind&);

/// The time of one token of each sequence by stored figures. reads: the bytes of weights, keys and values at the read
/// rate of the memory. sums: the AllReduces of a model on several ranks, each with the time of a small one and the
/// transfer of its bytes at the bus bandwidth of a large one (Hockney 1994).
struct TokenTime {
  double reads_s;
  std::optional<double> sums_s;  // nullopt if the profile has no AllReduce of this number of ranks
  double seconds() const { return reads_s + sums_s.value_or(0); }
};

/// Returns nullopt if the profile of the GPU has no rate of its memory.
std::optional<TokenTime> token_time(const DecodeSpec&, const GpuKind&);

/// Returns the largest batch that this GPU decodes with this context; 0 if one sequence does not fit.
long long largest_batch(const InferenceOrder&, int context, const GpuKind&);

/// Returns the memory of each row, then the tokens/s on each GPU with the rows of its figures; with `largest`, also the
/// largest batch for each context.
std::string inference_text(const InferenceOrder&, const std::vector<GpuKind>&, bool largest = false);

/// Returns the same as JSON.
std::string inference_json(const InferenceOrder&, const std::vector<GpuKind>&, bool largest = false);

}  // namespace shakedown::training
