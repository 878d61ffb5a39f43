// The smallest kernel whose execution can be verified.
#pragma once

#include <cuda_runtime.h>

namespace shakedown::cuda {

/// Queues a kernel with one thread that increments the counter.
void count_up(cudaStream_t, unsigned long long* counter);

}  // namespace shakedown::cuda
