// Sizes of work that follow from the properties of a GPU. The factors of these sizes are measured on H100 and H200,
// which both have 132 multiprocessors at 1.98 GHz.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace shakedown {

/// Whether f64 arithmetic is so slow that it limits f64 sums over memory.
enum class F64 { fast, slow };

/// Returns F64::slow if a GPU has one f64 unit for 16 or more f32 units. GPUs for graphics have one for 32 or 64 units,
/// and B300 (compute capability 10.3) has one for 64. `f32_per_f64` is the ratio that CUDA states; a driver that is
/// older than the GPU may not know this ratio.
constexpr F64 f64_of(int major, int minor, int f32_per_f64) {
  const bool known = major == 12 || (major == 10 && minor == 3) || (major == 8 && (minor == 6 || minor == 9));
  return known || f32_per_f64 >= 16 ? F64::slow : F64::fast;
}

struct GpuProperties {
  int multiprocessors = 1;
  double clock_hz = 0;            // the highest clock of the multiprocessors, or 0 if unknown
  double memory_bytes_per_s = 0;  // the highest rate of the memory bus, or 0 if unknown
  F64 f64 = F64::fast;

  /// Returns `part` of the memory's rate, but not more than `rate`.
  double at_most(double rate, double part) const {
    return memory_bytes_per_s > 0 ? std::min(rate, part * memory_bytes_per_s) : rate;
  }
  /// Returns the clock. If it is unknown, returns one that every current GPU reaches.
  double clock() const { return clock_hz > 0 ? clock_hz : 1e9; }
};

/// Returns the bytes per second at which the driver is assumed to clear freed memory. The driver clears memory
/// asynchronously, with the engine that copies from the host. An H200 clears 223 GB/s, 113 bytes per clock. Until it is
/// done, 0.65 s after a memory test, copies from the host reach 29.6 instead of 55.4 GB/s; the other direction is not
/// slower (measured, 2026-11). The assumption is lower, because waiting too long only costs time.
inline double clearing_rate(const GpuProperties& gpu) { return gpu.at_most(96 * gpu.clock(), 1.0 / 16); }

/// Returns the approximate bytes per second of a walk over memory that runs together with products. Products leave few
/// multiprocessors to the walk, so the number of multiprocessors limits the walk on GPUs with fast memory.
inline double loaded_walk_rate(const GpuProperties& gpu) {
  return gpu.at_most(9.565 * gpu.clock() * gpu.multiprocessors, 0.75);
}

/// Returns the seconds to plan for one of many products that run together with a walk, from the seconds of a product
/// that ran alone, rounded up to a power of two of milliseconds. Equal GPUs therefore queue equally many products, and
/// these products rarely outlast the walk. A product of 8192 cubed takes 1.4 to 1.7 ms alone on H100 and H200, and 2 ms
/// together with a walk.
inline double loaded_product_seconds(double alone) { return std::exp2(std::ceil(std::log2(alone * 1e3))) * 1e-3; }

/// Returns the number of parts into which sums over rows are divided. There are four blocks of 128 threads for each
/// multiprocessor.
constexpr std::size_t column_parts(int multiprocessors) { return 4 * static_cast<std::size_t>(multiprocessors); }

/// Returns the number of rows of logits that a step of adapters has in memory at a time: 16 to 32 tiles of 128 rows.
/// With tiles of 256 columns, a product with `hidden` columns then leaves the fewest multiprocessors idle at its end.
constexpr std::size_t logit_rows(std::size_t hidden, int multiprocessors) {
  const auto columns = (hidden + 255) / 256, at_once = static_cast<std::size_t>(multiprocessors);
  std::size_t best = 0;
  double busiest = 0;
  for (std::size_t rows = 32; rows >= 16; --rows) {
    const auto tiles = rows * columns, waves = (tiles + at_once - 1) / at_once;
    const double busy = static_cast<double>(tiles) / static_cast<double>(waves * at_once);
    if (busy > busiest) best = rows;
    busiest = std::max(busiest, busy);
  }
  return 128 * best;
}

}  // namespace shakedown
