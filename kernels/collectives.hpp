// What every backend's collectives have in common: who sends what to whom, and so what must arrive.
#pragma once

#include <cstdint>

#include "kernels/device.hpp"
#include "kernels/reference.hpp"

namespace shakedown {

inline constexpr int collective_root = 0;

constexpr bool sums(CollectiveOp op) { return op == CollectiveOp::reduce || op == CollectiveOp::reduce_scatter; }

/// In a reduce only the root has an output.
constexpr bool has_output(CollectiveOp op, int rank) { return op != CollectiveOp::reduce || rank == collective_root; }

/// From whom a rank of the ring receives, and to whom it sends.
constexpr int previous_rank(int rank, int ranks) { return (rank + ranks - 1) % ranks; }
constexpr int next_rank(int rank, int ranks) { return (rank + 1) % ranks; }

/// The words that a rank must have received by an operation that only moves data, where rank r sent words 0, 1, ... of
/// writer r.
inline reference::Parts received(const CollectiveSpec& spec, int rank) {
  constexpr std::size_t word = 4;
  const auto sizes = layout(spec);
  const auto me = static_cast<std::uint64_t>(rank);
  switch (spec.op) {
    case CollectiveOp::all_gather: return {sizes.part / word, 0, 0};
    case CollectiveOp::alltoall: return {sizes.part / word, me * (sizes.part / word), 0};
    case CollectiveOp::broadcast: return {sizes.out / word, 0, collective_root};
    case CollectiveOp::sendrecv:
      return {sizes.out / word, 0, static_cast<std::uint64_t>(previous_rank(rank, spec.ranks))};
    case CollectiveOp::reduce:
    case CollectiveOp::reduce_scatter: break;
  }
  throw std::invalid_argument(std::string(name(spec.op)) + " sums, it does not move words");
}

}  // namespace shakedown
