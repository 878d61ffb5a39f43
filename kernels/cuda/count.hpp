// The least that a kernel can do and leave a trace.
#pragma once

#include <cuda_runtime.h>

namespace shakedown::cuda {

/// Queues one thread that adds one to the counter.
void count_up(cudaStream_t, unsigned long long* counter);

}  // namespace shakedown::cuda
