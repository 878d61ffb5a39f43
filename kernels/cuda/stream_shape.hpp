// What a kernel that streams over arrays works on, and how it is spread over the GPU.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shakedown::cuda {

/// What is said to the caches about the data.
enum class Hint {
  none,
  streaming,  // used once: leaves the caches first
  wide,       // not kept in L1, and fetched into L2 by 256 bytes
};

/// How an operation is spread over the GPU.
struct StreamShape {
  int threads;        // of a block
  int unroll;         // vectors that a thread loads before it uses the first: 1, 2, 4 or 8; of a bulk copy, its stages
  int blocks_per_sm;  // that walk over the arrays; 0 = one block for each tile of threads x unroll vectors or stages
  Hint hint;
  int stage_bytes = 0;  // a bulk copy through shared memory (compute capability 9.0 and later), in stages of this size

  constexpr bool bulk() const { return stage_bytes > 0; }
};

/// Addresses are multiples of 16. copy: c = a; read: sums = words of a added up by each block; write: c = written_word;
/// scale: c = factor a; add: c = a + b; triad: c = a + factor b (of f64).
struct Operands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  std::uint64_t* sums = nullptr;  // one for each block: see stream_blocks
  std::size_t bytes = 0;          // of each array: any number for copy, else whole words of 8
  std::uint64_t writer = 0;       // of what `write` writes
  std::uint64_t* mark = nullptr;  // gets `bytes` from an operation that writes c, so that it is known to have run
};

}  // namespace shakedown::cuda
