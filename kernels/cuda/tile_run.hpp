// The size of tile products on a GPU, and how their numbers are distributed over the threads of a block.
#pragma once

#include <cuda_runtime.h>

#include "kernels/sm_record.hpp"
#include "kernels/tile_product.hpp"

namespace shakedown::cuda {

inline constexpr unsigned tile_m = 128, tile_n = 256, block_threads = 256;
inline constexpr unsigned tile_words = tile_m * tile_n;
/// Columns of a slab: 192 KiB for GPUs with 228 KiB of shared memory, and 96 KiB for the others.
inline constexpr int deep_slab_columns = 256, shallow_slab_columns = 128;
/// Number of records. The numbers of SMs are below the number of SMs of the full chip (PTX ISA, %smid).
inline constexpr unsigned max_sms = 1024;

constexpr TileShape tile_shape(int depth) { return {tile_m, tile_n, 8192, depth}; }
constexpr unsigned slab_bytes(int depth) { return (tile_m + tile_n) * 2 * static_cast<unsigned>(depth); }

/// The products of one launch, for each block: numbers `first` to `first` + `products`.
struct TileRun {
  const uint4* slabs;
  const float* expected;  // by tile, in the order of tile_place
  SmRecord* records;      // by SM
  unsigned long long first;
  unsigned products;
};

struct TilePlace {
  unsigned row, column;
};
/// Returns the place of number `word` of a thread in the tile (PTX ISA, fragments of mma.m16n8k16).
constexpr TilePlace tile_place(unsigned thread, unsigned word) {
  const unsigned warp = thread / 32, lane = thread % 32, i = word / 32, j = word / 4 % 8, c = word % 4;
  return {warp / 4 * 64 + 16 * i + lane / 4 + c / 2 * 8, warp % 4 * 64 + 8 * j + lane % 4 * 2 + c % 2};
}

}  // namespace shakedown::cuda
