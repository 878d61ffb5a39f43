#include "kernels/cuda/count.hpp"
#include "kernels/cuda/handle.hpp"

namespace shakedown::cuda {

namespace {

__global__ void count_kernel(unsigned long long* counter) { ++*counter; }

}  // namespace

void count_up(cudaStream_t stream, unsigned long long* counter) {
  count_kernel<<<1, 1, 0, stream>>>(counter);
  check(cudaGetLastError());
}

}  // namespace shakedown::cuda
