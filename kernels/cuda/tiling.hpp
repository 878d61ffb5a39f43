// What cuBLASLt's numbers for tiles, stages and clusters mean.
#pragma once

#include <optional>

#include "base/product_tiling.hpp"
#include "kernels/cuda/matmul.hpp"

namespace shakedown::cuda {

/// Returns how the algorithm divides D of this shape, in column-major order; nullopt if the toolkit's header does not
/// name its tile, as for an algorithm of a later release. Needs no GPU.
std::optional<ProductTiling> tiling_of(const MatmulAlgorithm&, const MatmulShape&, int multiprocessors);

}  // namespace shakedown::cuda
