// Kernels that stream over long arrays, in 16-byte vectors or by bulk copies through shared memory. The arrays are in
// one GPU's memory or in a peer's.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <span>

#include "kernels/cuda/stream_shape.hpp"
#include "kernels/ops/memory.hpp"

namespace shakedown::cuda {

/// Returns the shapes to try, most likely first. The fastest one differs between GPUs and sizes by a few per cent.
std::span<const StreamShape> stream_shapes(HbmOp);

/// True if a GPU of this compute capability supports the shape.
constexpr bool runs_on(const StreamShape& shape, int major) {
  return major >= (shape.hint == Hint::pairs ? 10 : shape.bulk() ? 9 : 0);
}

/// Returns the number of blocks for an operation on arrays of `bytes` bytes.
unsigned stream_blocks(const StreamShape&, std::size_t bytes, int multiprocessors);
/// Returns the largest number of blocks over all shapes of the operation.
unsigned most_stream_blocks(HbmOp, std::size_t bytes, int multiprocessors);

/// Queues the operation. Bulk shapes support copy and read only. Addresses that are no
/// multiples of 32 are accessed by single vectors.
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
