// Kernels that write pages, each by one SM, and read every page on every SM.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/tile_run.hpp"
#include "kernels/ops/sm.hpp"

namespace shakedown::cuda {

/// Pages in device memory. The words of operation `turn` differ from those of the last one in every bit.
struct PageRun {
  std::uint64_t* words;
  unsigned pages, turn;
  unsigned* writers;  // by page: the SM that wrote it
  SmRecord* records;  // by SM
  unsigned* wrong;    // by page and SM: wrong words that the SM has read, as of page * max_sms + sm
};

/// Queues the writes: block b writes each page p with (p + turn) % blocks == b.
void write_pages(const PageRun&, unsigned blocks, cudaStream_t);

/// Queues the reads: each block reads every page.
void read_pages(const PageRun&, unsigned blocks, cudaStream_t);

}  // namespace shakedown::cuda
