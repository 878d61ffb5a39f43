// Arranges figures of pairs as a matrix, in which a bad link is visible in its row and column. The functions are pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/results/results.hpp"

namespace shakedown {

/// One figure for each pair of ranks of one host: values[src][dst] by local index. nullopt if it was not measured.
struct PairMatrix {
  Key key;             // key without src and dst, or for any shift: "p2p/op:read/engine:ce/shift:*/bytes:8"
  std::string metric;  // such as "copy_gb_per_s" or "latency_us"
  std::string host;
  std::vector<std::vector<std::optional<double>>> values;

  /// Returns the cell with the lowest rate or the highest latency. If several cells are
  /// equal, returns the first cell in row order; nullopt if there are no values.
  struct Cell {
    int src, dst;
    double value;
  };
  std::optional<Cell> worst() const;
};

/// Returns the matrices in these rows, in file order. There is one matrix for each host, and for each set of keys that
/// differ only in src and dst or in the shift. Values are medians over repetitions. Rows without values (errors,
/// waivers) leave empty cells.
std::vector<PairMatrix> pair_matrices(const Context&, const std::vector<Row>&);
/// Like pair_matrices above, from the data of ranks by key and repetition, before there are rows.
std::vector<PairMatrix> pair_matrices(const Context&, const std::map<std::string, std::vector<RankData>>&);

/// Returns a table with a row for each source and a column for each destination. The worst cell is marked, and named
/// below the table.
std::string text(const PairMatrix&);

}  // namespace shakedown
