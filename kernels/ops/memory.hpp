// Streams over the memory of a device, and the test of all of it.
#pragma once

#include <optional>

#include "kernels/ops/operation.hpp"

namespace shakedown {

enum class HbmOp { copy, read, write, scale, add, triad };
constexpr auto words(HbmOp) { return names("copy", "read", "write", "scale", "add", "triad"); }

/// Arrays that an operation reads and writes.
inline std::size_t arrays(HbmOp op) {
  switch (op) {
    case HbmOp::read:
    case HbmOp::write: return 1;
    case HbmOp::copy:
    case HbmOp::scale: return 2;
    case HbmOp::add:
    case HbmOp::triad: return 3;
  }
  throw std::invalid_argument("unknown operation");
}

/// A stream over arrays in this device's memory, of `bytes` bytes each: copy c = a, read (the sum of a), write c,
/// scale c = 3 a, add c = a + b, triad c = a + 3 b, the last three of f64. `copy_gb_per_s` counts a copy's bytes once,
/// `hbm_gb_per_s` whatever is read and written.
struct HbmSpec {
  static constexpr std::string_view description = "a stream over the device's memory";

  HbmOp op;
  Engine engine;
  std::size_t bytes;
};

/// hbm/op:copy/engine:sm/bytes:4294967296
inline std::string key(const HbmSpec& s) {
  return Key("hbm").set("op", s.op).set("engine", s.engine).set("bytes", s.bytes).text();
}
/// Bytes read plus bytes written, as BabelStream counts them (src/benchmark.h).
inline Cost cost(const HbmSpec& s) { return {0, static_cast<double>(arrays(s.op)) * static_cast<double>(s.bytes)}; }
inline std::size_t footprint(const HbmSpec& s) { return arrays(s.op) * s.bytes; }

enum class TestPattern { address, complement, alternating, random };
constexpr auto words(TestPattern) { return names("address", "complement", "alternating", "random"); }

/// A walk over this device's memory: writes a pattern and reads it back. Without `bytes`: nearly all that is free, the
/// same on all ranks.
struct MemoryTestSpec {
  static constexpr std::string_view description = "a test of the device's memory";

  TestPattern pattern;
  std::optional<std::size_t> bytes;
};

/// memtest/pattern:random/bytes:free
inline std::string key(const MemoryTestSpec& s) {
  return Key("memtest").set("pattern", s.pattern).set("bytes", "free").set("bytes", s.bytes).text();
}
/// Bytes written plus bytes read, 0 while unknown.
inline Cost cost(const MemoryTestSpec& s) { return {0, 2.0 * static_cast<double>(s.bytes.value_or(0))}; }
inline std::size_t footprint(const MemoryTestSpec& s) { return s.bytes.value_or(0); }

}  // namespace shakedown
