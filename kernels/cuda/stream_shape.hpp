// Operands of a kernel that streams over arrays, and how its work is distributed over the GPU.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shakedown::cuda {

/// Cache hint for the data.
enum class Hint {
  none,
  streaming,  // used once, evicted first
  wide,       // not cached in L1; fetched into L2 in units of 256 bytes
  pairs,      // two vectors with one access of 32 bytes, not cached in L1 (compute capability 10.0 and later)
};

/// How an operation is distributed over the GPU.
struct StreamShape {
  int threads;        // per block
  int unroll;         // vectors that a thread loads before it uses the first: 1, 2, 4 or 8; for a bulk copy, its number
                      // of stages
  int blocks_per_sm;  // blocks that stride over the arrays; 0 = one block per tile of threads x unroll vectors or
                      // stages
  Hint hint;
  int stage_bytes = 0;  // a bulk copy through shared memory (compute capability 9.0 and later) in stages of this size,
                        // if not 0

  constexpr bool bulk() const { return stage_bytes > 0; }
};

/// Addresses are multiples of 16. copy: c = a; read: sums = sum of the words of a, per block; write: c = written_word;
/// scale: c = factor a; add: c = a + b; triad: c = a + factor b (in f64).
struct Operands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  std::uint64_t* sums = nullptr;  // one per block; see stream_blocks
  std::size_t bytes = 0;          // size of each array: any number for copy, otherwise a multiple of 8
  std::uint64_t writer = 0;       // rank that identifies the words of `write`
  std::uint64_t* mark = nullptr;  // set to `bytes` by an operation that writes c, as proof that it ran
};

}  // namespace shakedown::cuda
