// Streams over the memory of a device, and the test of the whole memory.
#pragma once

#include <optional>

#include "base/counted_work.hpp"
#include "kernels/ops/operation.hpp"

namespace shakedown {

enum class HbmOp { copy, read, write, scale, add, triad };
constexpr auto words(HbmOp) { return names("copy", "read", "write", "scale", "add", "triad"); }

/// Returns the number of arrays that an operation reads and writes.
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

/// A stream over arrays of `bytes` bytes each in this device's memory: copy c = a, read (the sum of a), write c, scale
/// c = 3 a, add c = a + b, triad c = a + 3 b; the last three in f64. `copy_gb_per_s` counts a copy's bytes once,
/// `hbm_gb_per_s` all bytes read and written.
struct HbmSpec {
  static constexpr std::string_view description = "a stream over the device's memory";

  HbmOp op;
  Engine engine;
  std::size_t bytes;
};

/// Returns the key, such as hbm/op:copy/engine:sm/bytes:4294967296.
inline std::string key(const HbmSpec& s) {
  return Key("hbm").set("op", s.op).set("engine", s.engine).set("bytes", s.bytes).text();
}
/// Returns bytes read plus bytes written, as BabelStream counts them (src/benchmark.h).
inline Cost cost(const HbmSpec& s) { return {0, static_cast<double>(arrays(s.op)) * static_cast<double>(s.bytes)}; }
inline std::size_t footprint(const HbmSpec& s) { return arrays(s.op) * s.bytes; }

/// `moving` is the moving inversions test of memory testers, with random words. Upwards, each word is read and its
/// complement written; downwards, the complement is read and the word written; then all words are read. This order
/// detects a write that disturbs neighbouring cells on either side, because the cells on one side have been written
/// already and those on the other have not.
enum class TestPattern { address, complement, alternating, random, moving };
constexpr auto words(TestPattern) { return names("address", "complement", "alternating", "random", "moving"); }

/// Returns how often a walk writes and reads every word.
constexpr int passes(TestPattern pattern) { return pattern == TestPattern::moving ? moving_inversion_passes : 1; }

/// A walk over this device's memory: writes a pattern and reads it back. Without `bytes`, it covers nearly all free
/// memory, the same number of bytes on all ranks. `loaded`: matrix products run at the same time; they draw power and
/// heat the memory's surroundings.
struct MemoryTestSpec {
  static constexpr std::string_view description = "a test of the device's memory";

  TestPattern pattern;
  std::optional<std::size_t> bytes;
  bool loaded = false;
};

/// Returns the key, such as memtest/pattern:random[/load:products]/bytes:free.
inline std::string key(const MemoryTestSpec& s) {
  Key key("memtest");
  key.set("pattern", s.pattern);
  if (s.loaded) key.set("load", "products");
  return key.set("bytes", "free").set("bytes", s.bytes).text();
}
/// Returns bytes written plus bytes read, or 0 while this is unknown.
inline Cost cost(const MemoryTestSpec& s) {
  return {0, 2.0 * passes(s.pattern) * static_cast<double>(s.bytes.value_or(0))};
}
inline std::size_t footprint(const MemoryTestSpec& s) { return s.bytes.value_or(0); }

}  // namespace shakedown
