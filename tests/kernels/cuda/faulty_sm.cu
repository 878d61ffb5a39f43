#include "kernels/cuda/tile_product.cuh"
#include "tests/kernels/cuda/faulty_sm.hpp"

namespace shakedown::cuda {

cudaError_t launch_faulty_tiles(const TileRun& run, int depth, unsigned blocks, cudaStream_t stream,
                                const FaultySm& fault) {
  return launch_tiles(run, depth, blocks, stream, fault);
}

}  // namespace shakedown::cuda
