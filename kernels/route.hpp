// Who copies to whom in a peer copy, in local ranks; the same for every backend.
#pragma once

#include <optional>

#include "kernels/device.hpp"

namespace shakedown {

/// A rank's part: where its data goes, and whose it gets.
struct Route {
  std::optional<int> to, from;
  bool takes_part() const { return to || from; }
  /// The rank whose memory this one maps, because it drives its copy: the destination of a write, the source of a read.
  std::optional<int> driven(CopyOp op) const { return op == CopyOp::write ? to : from; }
  /// Whether another rank maps memory of this one.
  bool shares(CopyOp op) const { return op == CopyOp::write ? from.has_value() : to.has_value(); }
};

inline Route route(const PeerCopySpec& spec, int rank) {
  Route route;
  if (rank == spec.src) route.to = spec.dst;
  if (rank == spec.dst) route.from = spec.src;
  if (spec.both && rank == spec.dst) route.to = spec.src;
  if (spec.both && rank == spec.src) route.from = spec.dst;
  return route;
}

/// Every rank to the one `shift` places behind it, round the ring of `ranks`.
inline Route route(const PeerShiftSpec& spec, int rank, int ranks) {
  return {(rank + spec.shift) % ranks, (rank + ranks - spec.shift) % ranks};
}

}  // namespace shakedown
