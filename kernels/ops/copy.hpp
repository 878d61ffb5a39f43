// Copies between the memories of a host's ranks, and between a GPU and its host.
#pragma once

#include <optional>

#include "kernels/chase.hpp"
#include "kernels/ops/operation.hpp"

namespace shakedown {

/// The side that drives a copy between peers. The destination pulls, or the source pushes.
enum class CopyOp { read, write };
enum class PcieOp { h2d, d2h, both };

constexpr auto words(CopyOp) { return names("read", "write"); }
constexpr auto words(PcieOp) { return names("h2d", "d2h", "both"); }

/// The role of a rank in a peer copy, in local ranks. The role has the destination of the rank's data, and the source
/// from which the rank receives.
struct Route {
  std::optional<int> to, from;
  bool takes_part() const { return to || from; }
  /// Returns the rank whose memory this rank maps to drive a copy: the destination of a write, the source of a read.
  std::optional<int> driven(CopyOp op) const { return op == CopyOp::write ? to : from; }
  /// True if another rank maps memory of this one.
  bool shares(CopyOp op) const { return op == CopyOp::write ? from.has_value() : to.has_value(); }
};

/// A copy between the memories of two ranks of one host; src and dst are local ranks. All hosts run it at once. With
/// `both`, a copy in the opposite direction runs at the same time, and the result is the sum of both.
struct PeerCopySpec {
  static constexpr std::string_view description = "a copy between two ranks of a host";

  CopyOp op;
  Engine engine;
  int src, dst;
  std::size_t bytes;
  bool both = false;
};

/// Returns the key, such as p2p/op:read/engine:ce/src:0/dst:3/bytes:1073741824.
inline std::string key(const PeerCopySpec& s) {
  Key key("p2p");
  key.set("op", s.op).set("engine", s.engine);
  if (s.both) key.set("dir", "both");
  return key.set("src", s.src).set("dst", s.dst).set("bytes", s.bytes).text();
}
/// Returns the number of bytes moved, counted once.
inline Cost cost(const PeerCopySpec& s) { return {0, (s.both ? 2.0 : 1.0) * static_cast<double>(s.bytes)}; }
inline std::size_t footprint(const PeerCopySpec& s) { return 2 * s.bytes; }

inline Route route(const PeerCopySpec& spec, int rank) {
  Route route;
  if (rank == spec.src) route.to = spec.dst;
  if (rank == spec.dst) route.from = spec.src;
  if (spec.both && rank == spec.dst) route.to = spec.src;
  if (spec.both && rank == spec.src) route.from = spec.dst;
  return route;
}

/// All ranks of a host at once: each local rank r copies to (r + shift) mod n. `even`: only even ranks receive, so that
/// each link carries data in one direction.
struct PeerShiftSpec {
  static constexpr std::string_view description = "copies of all ranks of a host at once";

  CopyOp op;
  Engine engine;
  int shift;
  std::size_t bytes;
  bool even = false;
};

/// Returns the key, such as p2p/op:write/engine:sm/shift:1[/ranks:even]/bytes:1073741824.
inline std::string key(const PeerShiftSpec& s) {
  Key key("p2p");
  key.set("op", s.op).set("engine", s.engine).set("shift", s.shift);
  if (s.even) key.set("ranks", "even");
  return key.set("bytes", s.bytes).text();
}
inline Cost cost(const PeerShiftSpec& s) { return {0, static_cast<double>(s.bytes)}; }
inline std::size_t footprint(const PeerShiftSpec& s) { return 2 * s.bytes; }

/// Returns the route from every rank to the rank `shift` places after it in a ring of `ranks`.
inline Route shifted(int shift, int rank, int ranks) {
  return {(rank + shift) % ranks, (rank + ranks - shift) % ranks};
}
inline Route route(const PeerShiftSpec& spec, int rank, int ranks) {
  auto route = shifted(spec.shift, rank, ranks);
  if (spec.even && *route.to % 2 != 0) route.to.reset();
  if (spec.even && rank % 2 != 0) route.from.reset();
  return route;
}

/// Local rank dst walks over a chain of pointers in the memory of src, one load after another.
struct PeerLatencySpec {
  static constexpr std::string_view description = "a walk of loads from the memory of another rank";

  Engine engine;
  int src, dst;
  std::size_t bytes;
};

/// Returns the number of loads of one walk, far fewer than the buffer has words.
inline std::size_t accesses(const PeerLatencySpec& s) { return chase::nodes(s.bytes); }

/// Returns the key, such as p2p/op:latency/engine:sm/src:0/dst:3/bytes:2097152.
inline std::string key(const PeerLatencySpec& s) {
  Key key("p2p");
  key.set("op", "latency").set("engine", s.engine).set("src", s.src).set("dst", s.dst);
  return key.set("bytes", s.bytes).text();
}
inline Route route(const PeerLatencySpec& spec, int rank) {
  Route route;
  if (rank == spec.src) route.to = spec.dst;
  if (rank == spec.dst) route.from = spec.src;
  return route;
}
inline Cost cost(const PeerLatencySpec& s) { return {0, 8.0 * static_cast<double>(accesses(s))}; }
inline std::size_t footprint(const PeerLatencySpec& s) { return s.bytes; }

/// All ranks of a host at once: each local rank walks in the memory of the rank `shift` places before it. A walk has
/// only one load in flight, so that walks do not affect each other.
struct PeerLatencyShiftSpec {
  static constexpr std::string_view description = "walks of all ranks of a host at once";

  Engine engine;
  int shift;
  std::size_t bytes;
};

inline std::size_t accesses(const PeerLatencyShiftSpec& s) { return chase::nodes(s.bytes); }

/// Returns the key, such as p2p/op:latency/engine:sm/shift:1/bytes:2097152.
inline std::string key(const PeerLatencyShiftSpec& s) {
  return Key("p2p").set("op", "latency").set("engine", s.engine).set("shift", s.shift).set("bytes", s.bytes).text();
}
inline Route route(const PeerLatencyShiftSpec& spec, int rank, int ranks) { return shifted(spec.shift, rank, ranks); }
inline Cost cost(const PeerLatencyShiftSpec& s) { return {0, 8.0 * static_cast<double>(accesses(s))}; }
inline std::size_t footprint(const PeerLatencyShiftSpec& s) { return s.bytes; }

/// A copy between a GPU and page-locked memory of its host. Either all ranks run at once, or one local rank runs alone
/// (`active`). The memory is on the GPU's own NUMA node or on another (`far`). For both directions the result is the
/// sum.
struct PcieSpec {
  static constexpr std::string_view description = "a copy between a GPU and its host";

  PcieOp op;
  std::size_t bytes;
  std::optional<int> active = std::nullopt;
  bool far = false;
};

/// Returns the key, such as pcie/op:h2d/active:one/rank:2/numa:far/bytes:268435456.
inline std::string key(const PcieSpec& s) {
  Key key("pcie");
  key.set("op", s.op);
  if (s.active) key.set("active", "one").set("rank", s.active);
  if (s.far) key.set("numa", "far");
  return key.set("bytes", s.bytes).text();
}
inline Cost cost(const PcieSpec& s) { return {0, (s.op == PcieOp::both ? 2.0 : 1.0) * static_cast<double>(s.bytes)}; }
inline std::size_t footprint(const PcieSpec& s) { return (s.op == PcieOp::both ? 2 : 1) * s.bytes; }

}  // namespace shakedown
