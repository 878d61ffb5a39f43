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

/// The pattern as walk number `walk` writes it: reference::inversion.
void write_piece(cudaStream_t, const Piece&, TestPattern, std::uint64_t walk);
void check_piece(cudaStream_t, const Piece&, TestPattern, std::uint64_t walk, Walked*);

}  // namespace shakedown::cuda
