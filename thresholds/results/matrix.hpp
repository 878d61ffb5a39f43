// Figures of pairs as a matrix: a bad link shows in rows and columns, not in a list. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/results/results.hpp"

namespace shakedown {

/// One figure between the ranks of one host: values[src][dst], local indices, nullopt where nothing was measured.
struct PairMatrix {
  Key key;  // of the benchmarks without src and dst, or for any shift: "p2p/op:read/engine:ce/shift:*/bytes:8"
  std::string metric;  // "copy_gb_per_s", "latency_us"
  std::string host;
  std::vector<std::vector<std::optional<double>>> values;

  /// The lowest rate or the highest latency; the first in order of rows where several are equal. Absent without values.
  struct Cell {
    int src, dst;
    double value;
  };
  std::optional<Cell> worst() const;
};

/// The matrices in these rows, one for each host and each set of keys that differ only in src and dst or in the shift,
/// in file order.
/// The median of several repetitions, as the judge takes it. Rows without values (errors, waivers) leave holes.
std::vector<PairMatrix> pair_matrices(const Context&, const std::vector<Row>&);
/// The same before there are rows: what ranks have by key and repetition.
std::vector<PairMatrix> pair_matrices(const Context&, const std::map<std::string, std::vector<RankData>>&);

/// Sources by row, destinations by column, columns aligned, the worst cell marked and named below.
std::string text(const PairMatrix&);

}  // namespace shakedown
