// The chain of a pointer chase. Each node holds the index of the next node; the chain visits every node once and
// returns to the first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "base/counted_work.hpp"
#include "kernels/reference.hpp"

namespace shakedown::chase {

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
