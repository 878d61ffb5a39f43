// One thread; each load needs the result of the one before.
#include "kernels/chase.hpp"
#include "kernels/cuda/chase.hpp"
#include "kernels/cuda/handle.hpp"

namespace shakedown::cuda {

namespace {

__global__ void chase_kernel(const unsigned char* chain, unsigned nodes, ChaseResult* result) {
  std::uint64_t word = 0, sum = 0;
  for (unsigned i = 0; i < nodes; ++i) {
    const auto node = static_cast<unsigned>(word) & (nodes - 1);  // a damaged word must not lead outside
    word = __ldcv(reinterpret_cast<const unsigned long long*>(chain + node * chase::node_bytes));  // past L1
    sum += word;
  }
  *result = {word, sum};
}

}  // namespace

void chase_pointers(cudaStream_t stream, const void* chain, std::size_t nodes, ChaseResult* result) {
  chase_kernel<<<1, 1, 0, stream>>>(static_cast<const unsigned char*>(chain), static_cast<unsigned>(nodes), result);
  check(cudaGetLastError());
}

}  // namespace shakedown::cuda
