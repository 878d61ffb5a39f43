// The chain of a pointer chase: each node says which comes next, all are visited once, and the last leads to the first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/reference.hpp"

namespace shakedown::chase {

/// A cache line each, so that no load is answered by the line of an earlier one.
inline constexpr std::size_t node_bytes = 128;

/// Nodes in a buffer: the largest power of two that fits, so that a mask keeps a damaged index inside.
constexpr std::size_t nodes(std::size_t bytes) {
  std::size_t count = 1;
  while (2 * count * node_bytes <= bytes) count *= 2;
  return count;
}

/// What a node holds: the next one below, its own number above.
constexpr std::uint64_t word(std::uint64_t node, std::uint64_t next) { return node << 32 | next; }

/// The words of all nodes: one cycle through all of them in a shuffled order (Sattolo's algorithm, always the same).
inline std::vector<std::uint64_t> chain(std::size_t count) {
  std::vector<std::uint64_t> next(count);
  std::iota(next.begin(), next.end(), std::uint64_t{0});
  for (std::size_t i = count - 1; i > 0; --i) std::swap(next[i], next[reference::mix(i) % i]);
  for (std::size_t i = 0; i < count; ++i) next[i] = word(i, next[i]);
  return next;
}

/// What one walk over the whole chain adds up, modulo 2^64.
inline std::uint64_t sum(const std::vector<std::uint64_t>& chain) {
  return std::accumulate(chain.begin(), chain.end(), std::uint64_t{0});
}

}  // namespace shakedown::chase
