// The numbers of tile products and their exact results, on all backends.
//
// A slab has `depth` columns of A and of B, in chunks of 16. Each chunk of A is multiplied by each chunk of B, so that
// a slab in fast memory gives depth^2 / 16 columns of k. The product is the sum over j of (sum over chunks of A) * (sum
// over chunks of B) in column j of a chunk: 1 / 256 of the work for depth 256. The host therefore computes every result
// itself, in integers and in another order.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "kernels/reference.hpp"

namespace shakedown {

struct TileShape {
  int m, n, k;
  int depth;  // columns of a slab

  static constexpr int chunk = 16;
  static constexpr int slabs = 16;  // different slabs, and different tiles

  constexpr int rows() const { return m + n; }  // of a slab: first those of A, then the columns of B
  constexpr int slabs_of_tile() const { return k * chunk / (depth * depth); }
  constexpr int slab_of(int tile, int part) const { return (tile + part) % slabs; }
};

/// Returns an element of a slab: an integer of 8 bits and a sign, which uses all digits of bf16. The sum of 8192
/// products has a standard deviation of 2e6, an eighth of the largest integer up to which f32 is exact.
constexpr int tile_element(int slab, int row, int column) {
  const auto place = (static_cast<std::uint64_t>(slab) << 40) | (static_cast<std::uint64_t>(row) << 20) |
                     static_cast<std::uint64_t>(column);
  return static_cast<int>(reference::mix(place) % 511) - 255;
}

/// Returns the m x n numbers of a tile by rows. Errors: std::logic_error if a number is not exact in f32.
inline std::vector<float> expected_tile(const TileShape& shape, int tile) {
  const auto columns = static_cast<std::size_t>(TileShape::chunk);
  std::vector<std::int64_t> sums(static_cast<std::size_t>(shape.m) * static_cast<std::size_t>(shape.n));
  for (int part = 0; part < shape.slabs_of_tile(); ++part) {
    std::vector<std::int64_t> over_chunks(static_cast<std::size_t>(shape.rows()) * columns);
    for (int row = 0; row < shape.rows(); ++row) {
      for (int k = 0; k < shape.depth; ++k) {
        over_chunks[static_cast<std::size_t>(row) * columns + static_cast<std::size_t>(k % TileShape::chunk)] +=
            tile_element(shape.slab_of(tile, part), row, k);
      }
    }
    for (int i = 0; i < shape.m; ++i) {
      const auto* const a = &over_chunks[static_cast<std::size_t>(i) * columns];
      for (int j = 0; j < shape.n; ++j) {
        const auto* const b = &over_chunks[static_cast<std::size_t>(shape.m + j) * columns];
        auto& sum = sums[static_cast<std::size_t>(i) * static_cast<std::size_t>(shape.n) + static_cast<std::size_t>(j)];
        for (std::size_t c = 0; c < columns; ++c) sum += a[c] * b[c];
      }
    }
  }
  constexpr std::int64_t max_exact_integer = 1 << 24;
  std::vector<float> exact;
  for (const auto sum : sums) {
    if (std::abs(sum) > max_exact_integer) throw std::logic_error("a tile has a number that is not exact in f32");
    exact.push_back(static_cast<float>(sum));
  }
  return exact;
}

}  // namespace shakedown
