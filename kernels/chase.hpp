// The chain of a pointer chase. Each node holds the index of the next node; the chain visits every node once and
// returns to the first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/reference.hpp"

namespace shakedown::chase {

/// One cache line per node, so that no load hits the line of an earlier load.
inline constexpr std::size_t node_bytes = 128;

/// Returns the number of nodes in a buffer: the largest power of two that fits. With a power of two, a mask keeps a
/// corrupted index inside the buffer.
constexpr std::size_t nodes(std::size_t bytes) {
  std::size_t count = 1;
  while (2 * count * node_bytes <= bytes) count *= 2;
  return count;
}

/// Returns the content of a node: the index of the next node in the lower 32 bits, its own index in the upper 32.
constexpr std::uint64_t word(std::uint64_t node, std::uint64_t next) { return node << 32 | next; }

/// Returns the words of all nodes: one cycle in shuffled order (Sattolo's algorithm). The order is the same in every
/// run.
inline std::vector<std::uint64_t> chain(std::size_t count) {
  std::vector<std::uint64_t> next(count);
  std::iota(next.begin(), next.end(), std::uint64_t{0});
  for (std::size_t i = count - 1; i > 0; --i) std::swap(next[i], next[reference::mix(i) % i]);
  for (std::size_t i = 0; i < count; ++i) next[i] = word(i, next[i]);
  return next;
}

/// Returns the sum of all words that one walk over the whole chain loads, modulo 2^64.
inline std::uint64_t sum(const std::vector<std::uint64_t>& chain) {
  return std::accumulate(chain.begin(), chain.end(), std::uint64_t{0});
}

}  // namespace shakedown::chase
