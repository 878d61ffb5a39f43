// Figures of pairs as a matrix, which shows bad links in rows and columns. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/results/results.hpp"

namespace shakedown {

/// One figure between the ranks of one host: values[src][dst] by local index; nullopt if not measured.
struct PairMatrix {
  Key key;  // of the benchmarks without src and dst, or for any shift: "p2p/op:read/engine:ce/shift:*/bytes:8"
  std::string metric;  // "copy_gb_per_s", "latency_us"
  std::string host;
  std::vector<std::vector<std::optional<double>>> values;

  /// Returns the lowest rate or the highest latency, the first of equal ones in row order; nullopt without values.
  struct Cell {
    int src, dst;
    double value;
  };
  std::optional<Cell> worst() const;
};

/// Returns the matrices in these rows in file order, one for each host and each set of keys that differ only in src and
/// dst or in the shift. Values are medians over repetitions. Rows without values (errors, waivers) leave gaps.
std::vector<PairMatrix> pair_matrices(const Context&, const std::vector<Row>&);
/// Returns the same from the data of ranks by key and repetition, before there are rows.
std::vector<PairMatrix> pair_matrices(const Context&, const std::map<std::string, std::vector<RankData>>&);

/// Returns a table with sources as rows and destinations as columns. The worst cell is marked and named below.
std::string text(const PairMatrix&);

}  // namespace shakedown
