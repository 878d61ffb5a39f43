// Kernels that write the known data of collectives and check what came out: the formulas of reference.hpp on the GPU.
// All are queued on the stream.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/tally.hpp"
#include "kernels/device.hpp"
#include "kernels/reference.hpp"

namespace shakedown::cuda {

/// What a buffer of a sum holds: the input of one rank, or the sum over all, from element `first` of the whole on.
struct AddendPattern {
  static constexpr int all_ranks = -1;

  reference::Addends addends;
  int rank = all_ranks;
  std::uint64_t first = 0;

  constexpr std::int64_t at(std::uint64_t i) const {
    return rank == all_ranks ? addends.sum(first + i) : addends.at(first + i, rank);
  }
};

/// Types: f32, f16, bf16. Errors: std::invalid_argument for others.
void write_addends(cudaStream_t, void* values, DType, std::size_t count, const AddendPattern&);
void count_wrong_addends(cudaStream_t, const void* values, DType, std::size_t count, const AddendPattern&, Tally*);

void write_parts(cudaStream_t, std::uint32_t* words, std::size_t count, const reference::Parts&);
void count_wrong_parts(cudaStream_t, const std::uint32_t* words, std::size_t count, const reference::Parts&, Tally*);

}  // namespace shakedown::cuda
