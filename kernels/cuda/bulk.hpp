// Streams data through shared memory with bulk copies of the tensor memory accelerator (compute capability 9.0 and
// later). One thread keeps many kilobytes in flight without using registers for them.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/stream_shape.hpp"
#include "kernels/ops/memory.hpp"

namespace shakedown::cuda {

inline constexpr int max_bulk_stages = 8;

/// Queues a copy or a read with a bulk shape.
void bulk_over(cudaStream_t, HbmOp, const Operands&, const StreamShape&, unsigned blocks);

}  // namespace shakedown::cuda
