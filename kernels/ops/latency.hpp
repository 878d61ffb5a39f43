// Latency of a device's own memory. For another rank's memory, see kernels/ops/copy.hpp.
#pragma once

#include <algorithm>

#include "kernels/chase.hpp"
#include "kernels/ops/operation.hpp"

namespace shakedown {

/// One thread walks over a chain of `bytes` in this rank's memory, one load after another. The size determines which
/// cache serves the loads, if any.
struct MemoryLatencySpec {
  static constexpr std::string_view description = "a walk of loads from the device's memory";
  static constexpr Backend only = Backend::host;

  Engine engine;
  std::size_t bytes;
};

/// Returns the number of loads of one operation. The next operation continues at its end, so it never finds its data in
/// a cache.
inline std::size_t accesses(const MemoryLatencySpec& s) {
  return std::min<std::size_t>(chase::nodes(s.bytes), chase::max_local_loads);
}

/// Returns the key, such as hbm/op:latency/engine:cpu/bytes:268435456.
inline std::string key(const MemoryLatencySpec& s) {
  return Key("hbm").set("op", "latency").set("engine", s.engine).set("bytes", s.bytes).text();
}
inline Cost cost(const MemoryLatencySpec& s) { return {0, 8.0 * static_cast<double>(accesses(s))}; }
inline std::size_t footprint(const MemoryLatencySpec& s) { return s.bytes; }

}  // namespace shakedown
