// Operands of a kernel that streams over arrays, and how its work is distributed over the GPU.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shakedown::cuda {

/// Cache hint for the data.
enum class Hint {
  none,
  streaming,  // data that is used once and evicted first
  wide,       // data that is not cached in L1 and is fetched into L2 in units of 256 bytes
  pairs,      // two vectors with one access of 32 bytes, not cached in L1 (compute capability 10.0 and later)
};

/// How an operation is distributed over the GPU.
struct StreamShape {
  int threads;  // threads in a block
  /// Number of vectors that a thread loads before it uses the first (1, 2, 4 or 8), or the number of stages of a bulk
  /// copy.
  int unroll;
  /// Number of blocks that stride over the arrays, or 0 for one block for each tile of threads x unroll vectors or
  /// stages.
  int blocks_per_sm;
  Hint hint;
  /// If not 0, a bulk copy through shared memory in stages of this size (compute capability 9.0 and later).
  int stage_bytes = 0;

  constexpr bool bulk() const { return stage_bytes > 0; }
};

/// Addresses are multiples of 16. copy: c = a; read: sums = sum of the words of a, per block; write: c = written_word;
/// scale: c = factor a; add: c = a + b; triad: c = a + factor b (in f64).
struct Operands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  std::uint64_t* sums = nullptr;  // one sum for each block; see stream_blocks
  std::size_t bytes = 0;          // size of each array, which is any number for a copy and otherwise a multiple of 8
  std::uint64_t writer = 0;       // the rank that identifies the words of `write`
  std::uint64_t* mark = nullptr;  // set to `bytes` by an operation that writes c, as proof that it ran
};

}  // namespace shakedown::cuda
