// The counts of work that kernels do, and that the judge and the generator of fleets compute from a key.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shakedown {

/// Steps of a quantum of jitter. Each step is a dependent multiplication and addition, 4 cycles on current cores. A
/// quantum thus takes 0.1 ms, much less than a time slice of another thread, so that a time slice affects only a few of
/// many quanta.
inline constexpr std::uint64_t steps_per_quantum = 65536;

/// How often moving inversions write and read every word of a memory test; other patterns do so once.
inline constexpr int moving_inversion_passes = 3;

namespace chase {

/// One cache line per node of a pointer chase, so that no load hits the line of an earlier load.
inline constexpr std::size_t node_bytes = 128;

/// The largest number of loads of one operation in a rank's own memory. A sample is then short enough to fit between
/// two time slices of other processes.
inline constexpr std::size_t max_local_loads = 4096;

/// Returns the number of nodes in a buffer: the largest power of two that fits. With a power of two, a mask keeps a
/// corrupted index inside the buffer.
constexpr std::size_t nodes(std::size_t bytes) {
  std::size_t count = 1;
  while (2 * count * node_bytes <= bytes) count *= 2;
  return count;
}

}  // namespace chase

}  // namespace shakedown
