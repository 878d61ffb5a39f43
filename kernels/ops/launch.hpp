// The time that the host needs to start work on the device.
#pragma once

#include "kernels/ops/operation.hpp"

namespace shakedown {

enum class LaunchOp { kernel, graph };
constexpr auto words(LaunchOp) { return names("kernel", "graph"); }

/// The call that launches a kernel with almost no work, or a graph of several such kernels. Each kernel increments a
/// counter, so that a skipped one is detected.
struct LaunchSpec {
  static constexpr std::string_view description = "the launch of a kernel";
  static constexpr Backend only = Backend::cuda;

  LaunchOp op;
  int kernels = 1;
  int turn = 1;  // 2 in a retest after an outlier
};

/// Returns the key, such as launch/op:kernel or launch/op:graph/kernels:20.
inline std::string key(const LaunchSpec& s) {
  Key key("launch");
  key.set("op", s.op);
  if (s.op == LaunchOp::graph) key.set("kernels", s.kernels);
  if (s.turn > 1) key.set("turn", s.turn);
  return key.text();
}
/// Counts the bytes of the counter, which each kernel reads and writes.
inline Cost cost(const LaunchSpec& s) { return {0, 16.0 * s.kernels}; }
inline std::size_t footprint(const LaunchSpec&) { return 8; }

}  // namespace shakedown
