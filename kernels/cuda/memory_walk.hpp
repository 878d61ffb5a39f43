// Kernels of the memory test: write known words to memory, and list the words that have changed.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/ops/memory.hpp"

namespace shakedown::cuda {

struct WrongWord {
  unsigned long long index;    // word index within the whole test
  unsigned long long address;  // GPU virtual address
  unsigned long long got, expected;
};

/// Results of the walks, in device memory and on the host.
struct Walked {
  static constexpr unsigned listed = 8;

  unsigned long long compared = 0, mismatched = 0;
  unsigned found = 0;  // entries of `words` in use; may exceed `listed` if several threads find errors at once
  WrongWord words[listed] = {};
};

/// A piece of the memory under test. The first word of a piece has index `first` within the whole test. A piece
/// consists of whole 16-byte vectors.
struct Piece {
  std::uint64_t* words;
  std::size_t first, count;
};

/// Queues a write of the pattern's words, inverted where `inversion` has ones.
void write_piece(cudaStream_t, const Piece&, TestPattern, std::uint64_t inversion);

/// How a pass treats words. `look` only reads them. `up` and `down` replace each word by its complement right after
/// reading it. `up` starts at the first word and `down` at the last, as far as a GPU guarantees an order.
enum class Pass { look, up, down };
void check_piece(cudaStream_t, const Piece&, TestPattern, std::uint64_t inversion, Walked*, Pass = Pass::look);

}  // namespace shakedown::cuda
