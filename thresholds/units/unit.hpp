// The parts of the machine that benchmarks describe, and the classes of benchmarks that describe the same part: GEMM by
// type, HBM by direction and engine, copies by link and by the GPU at either end.
#pragma once

#include <compare>
#include <optional>
#include <vector>

#include "base/key.hpp"

namespace shakedown {

enum class UnitKind { gpu, link, host };

/// A part of the machine that measurements describe.
struct Unit {
  UnitKind kind = UnitKind::gpu;
  int from = -1;  // source of a link
  int rank = 0;   // rank of a GPU; destination of a link; first rank of a host

  /// Returns the source of a link; nullopt for other units.
  std::optional<int> source() const { return kind == UnitKind::link ? std::optional(from) : std::nullopt; }
  friend auto operator<=>(const Unit&, const Unit&) = default;
};

inline Unit gpu_unit(int rank) { return {UnitKind::gpu, -1, rank}; }
inline Unit host_unit(int first_rank) { return {UnitKind::host, -1, first_rank}; }
inline Unit link_unit(int from, int to) { return {UnitKind::link, from, to}; }
/// Returns the link from `from` if it is set, else the GPU.
inline Unit unit_at(int rank, std::optional<int> from) { return from ? link_unit(*from, rank) : gpu_unit(rank); }

/// Returns the classes of a row, the widest first, such as "gemm" and "gemm/dtype:bf16".
std::vector<Key> classes_of(const Key&);

/// Returns the unit that a value at `rank` describes: the GPU; the link to it from `from`; or, in a class of copies by
/// one end ("end:src", "end:dst"), the GPU at that end.
Unit unit_of(const Key& class_name, int rank, std::optional<int> from);

/// Returns the key that rows have in common if each is the work of one rank: "active:one/rank:*".
Key of_each_rank(const Key&);

}  // namespace shakedown
