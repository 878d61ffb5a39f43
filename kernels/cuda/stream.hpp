// Kernels that stream over long arrays, in 16-byte vectors or by bulk copies through shared memory: inside one GPU's
// memory, or to and from a peer's.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/ops/memory.hpp"

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

/// The shapes worth trying, the best guess first. Which one wins differs between GPUs and sizes, by a few per cent.
std::span<const StreamShape> stream_shapes(HbmOp);

/// Whether a GPU of this compute capability can do it.
constexpr bool runs_on(const StreamShape& shape, int major) { return !shape.bulk() || major >= 9; }

/// Blocks that an operation on arrays of so many bytes uses.
unsigned stream_blocks(const StreamShape&, std::size_t bytes, int multiprocessors);
/// The most that any shape of the operation uses.
unsigned most_stream_blocks(HbmOp, std::size_t bytes, int multiprocessors);

/// Queues the operation. Bulk shapes: copy and read only.
void stream_over(cudaStream_t, HbmOp, const Operands&, const StreamShape&, int multiprocessors);

/// Queues a copy of any number of bytes.
inline void copy(cudaStream_t stream, const void* from, void* to, std::size_t bytes, const StreamShape& shape,
                 int multiprocessors) {
  Operands operands;
  operands.a = from;
  operands.c = to;
  operands.bytes = bytes;
  stream_over(stream, HbmOp::copy, operands, shape, multiprocessors);
}

}  // namespace shakedown::cuda
