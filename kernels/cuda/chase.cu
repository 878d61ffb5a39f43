// The pointer-chase kernel. Only one thread runs at a time, and each load depends on the previous load.
#include <algorithm>

#include "kernels/chase.hpp"
#include "kernels/cuda/chase.hpp"
#include "kernels/cuda/handle.hpp"

namespace shakedown::cuda {

namespace {

/// Maximum number of multiprocessors that take part. The number is large enough for a mean over the chip and small
/// enough that the cost of each handover (about 2 us) is negligible: in a chain of 2 MiB each walker makes 512
/// accesses.
constexpr unsigned max_walkers = 32;

/// One block per multiprocessor. `walkers` of these blocks, evenly spread, walk their parts of the chain in turn. A
/// block only waits for blocks with a lower index, which were started before it.
__global__ void chase_kernel(const unsigned char* chain, unsigned nodes, ChaseResult* result, unsigned walkers) {
  const unsigned walker = blockIdx.x * walkers / gridDim.x;
  // A block that is not the first of a range has no part.
  if (blockIdx.x != (walker * gridDim.x + walkers - 1) / walkers) return;
  volatile ChaseResult& handed_on = *result;
  while (handed_on.turn != walker) {
  }
  __threadfence();
  std::uint64_t word = walker == 0 ? 0 : handed_on.last, sum = walker == 0 ? 0 : handed_on.sum;
  const auto boundary = [&](std::uint64_t w) { return static_cast<unsigned>(w * nodes / walkers); };
  const unsigned end = boundary(walker + 1);
  for (unsigned i = boundary(walker); i < end; ++i) {
    const auto node = static_cast<unsigned>(word) & (nodes - 1);  // a corrupted word must not lead out of the buffer
    // A load that bypasses L1.
    word = __ldcv(reinterpret_cast<const unsigned long long*>(chain + node * chase::node_bytes));
    sum += word;
  }
  handed_on.last = word;
  handed_on.sum = sum;
  __threadfence();
  handed_on.turn = walker + 1;
}

}  // namespace

void chase_pointers(cudaStream_t stream, const void* chain, std::size_t nodes, ChaseResult* result,
                    int multiprocessors) {
  const auto blocks = static_cast<unsigned>(multiprocessors);
  check(cudaMemsetAsync(&result->turn, 0, sizeof result->turn, stream));
  chase_kernel<<<blocks, 1, 0, stream>>>(static_cast<const unsigned char*>(chain), static_cast<unsigned>(nodes), result,
                                         std::min(max_walkers, blocks));
  check(cudaGetLastError());
}

}  // namespace shakedown::cuda
