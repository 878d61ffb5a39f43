// The copy kernel: 16-byte vectors through the SMs, inside one GPU's memory or to and from a peer's.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <span>

namespace shakedown::cuda {

/// How a copy is spread over the GPU.
struct CopyShape {
  int threads;        // of a block
  int unroll;         // vectors that a thread loads before its first store: 2, 4 or 8
  int blocks_per_sm;  // that walk over the buffer; 0 = one block for each threads x unroll vectors
  bool streaming;     // cache hint: data is used once
};

/// The shapes worth trying, the best guess first. Which one wins differs between GPUs and sizes, by a few per cent.
std::span<const CopyShape> copy_shapes();

/// Queues a copy of any number of bytes; both addresses are multiples of 16.
void copy(cudaStream_t, const void* from, void* to, std::size_t bytes, const CopyShape&, int multiprocessors);

}  // namespace shakedown::cuda
