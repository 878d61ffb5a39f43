// Tile products on every SM of a GPU.
#pragma once

#include <memory>

#include "kernels/cuda/gpu.hpp"
#include "kernels/cuda/tile_run.hpp"
#include "kernels/ops/sm.hpp"

namespace shakedown::cuda {

/// Queues the products on this number of blocks.
using TileLaunch = void (*)(const TileRun&, int depth, unsigned blocks, cudaStream_t);

void launch_sound_tiles(const TileRun&, int depth, unsigned blocks, cudaStream_t);

/// Returns the Work of a spec. Tests give a launch with planted faults. Errors: Unsupported if the GPU has no bf16
/// products, or too little shared memory.
std::unique_ptr<Work> make_tile_products(const TileProductSpec&, const Gpu&, TileLaunch);

}  // namespace shakedown::cuda
