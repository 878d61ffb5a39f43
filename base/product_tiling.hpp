// How the kernel of a matrix product divides the result among the multiprocessors of a GPU.
#pragma once

#include <cmath>
#include <cstdint>

namespace shakedown {

/// The division of D = A B with `rows` x `columns` elements, each a sum of `terms` terms. One block of threads computes
/// a tile of D, or with `split` above 1 a part of its sums. The blocks of a cluster run on neighbouring
/// multiprocessors and share what they load.
struct ProductTiling {
  std::uint64_t rows = 0, columns = 0, terms = 0;
  std::uint64_t tile_rows = 0, tile_columns = 0;
  std::uint64_t cluster_rows = 1, cluster_columns = 1;  // in tiles
  std::uint64_t stage_terms = 0;                        // number of terms that a block loads at a time; 0 if unknown
  std::uint64_t stages = 0;  // number of such loads that are in flight; 0 if the library chooses it at each launch
  std::uint64_t split = 1;
  std::uint64_t multiprocessors = 0;

  bool operator==(const ProductTiling&) const = default;

  /// Returns the number of blocks, which includes blocks outside of D that complete a cluster. Not finite if a file has
  /// a tile without elements.
  double blocks() const {
    const auto whole = [](std::uint64_t extent, std::uint64_t tile, std::uint64_t tiles) {
      const auto cluster = static_cast<double>(tiles);
      return std::ceil(static_cast<double>(extent) / (static_cast<double>(tile) * cluster)) * cluster;
    };
    return whole(rows, tile_rows, cluster_rows) * whole(columns, tile_columns, cluster_columns) *
           static_cast<double>(split);
  }

  /// Returns the number of turns in which all multiprocessors compute a block each. If several small blocks fit on a
  /// multiprocessor, there are fewer turns.
  double waves() const { return blocks() / static_cast<double>(multiprocessors); }

  /// Returns the percentage of multiprocessors that have a block in the last turn.
  double last_wave_percent() const { return 100 * (waves() - std::ceil(waves()) + 1); }

  /// Returns the division of the transposed product, D' = B' A'.
  ProductTiling transposed() const {
    return {columns,      rows,        terms,  tile_columns, tile_rows,      cluster_columns,
            cluster_rows, stage_terms, stages, split,        multiprocessors};
  }
};

template <class Archive>
void members(Archive& archive, ProductTiling& t) {
  archive("rows", t.rows)("columns", t.columns)("terms", t.terms);
  archive("tile_rows", t.tile_rows)("tile_columns", t.tile_columns);
  archive("cluster_rows", t.cluster_rows)("cluster_columns", t.cluster_columns);
  archive("stage_terms", t.stage_terms)("stages", t.stages)("split", t.split)("multiprocessors", t.multiprocessors);
  archive.derived("waves", t.waves()).derived("last_wave_percent", t.last_wave_percent());
}

}  // namespace shakedown
