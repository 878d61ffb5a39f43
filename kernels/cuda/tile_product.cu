#include "kernels/cuda/handle.hpp"
#include "kernels/cuda/tile_product.cuh"
#include "kernels/cuda/tile_product.hpp"

namespace shakedown::cuda {

void launch_sound_tiles(const TileRun& run, int depth, unsigned blocks, cudaStream_t stream) {
  check(launch_tiles(run, depth, blocks, stream, SoundSm{}));
}

}  // namespace shakedown::cuda
