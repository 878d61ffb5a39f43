// Kernels of the memory test: write known words over memory, and list those that are not there any more.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/ops/memory.hpp"

namespace shakedown::cuda {

struct WrongWord {
  unsigned long long index;    // in the whole test, in words
  unsigned long long address;  // as the GPU sees it
  unsigned long long got, expected;
};

/// What the walks have found, in device memory and on the host.
struct Walked {
  static constexpr unsigned listed = 8;

  unsigned long long compared = 0, mismatched = 0;
  unsigned found = 0;  // of the list: wrong words, at most so many as it holds
  WrongWord words[listed] = {};
};

/// A piece of the memory under test: its first word is number `first` of the whole test. Whole 16-byte vectors.
struct Piece {
  std::uint64_t* words;
  std::size_t first, count;
};

/// Words of the pattern, inverted where `inversion` has ones.
void write_piece(cudaStream_t, const Piece&, TestPattern, std::uint64_t inversion);

/// How words are looked at: only read, or each replaced by its complement as soon as it is read, from the first to the
/// last or from the last to the first, so far as a GPU has an order.
enum class Pass { look, up, down };
void check_piece(cudaStream_t, const Piece&, TestPattern, std::uint64_t inversion, Walked*, Pass = Pass::look);

}  // namespace shakedown::cuda
