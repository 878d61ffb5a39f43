// Metrics of collectives.
#pragma once

#include "fixtures/plan/session.hpp"
#include "kernels/ops/collective.hpp"

namespace shakedown {

/// Returns the figures of a collective: algbw and busbw. algbw is S / t, where S is the number of bytes that the
/// operation moves; busbw is defined as in nccl-tests. A single rank moves no data between GPUs, so it has only algbw
/// and latency.
inline Figures figures_of(const CollectiveSpec& spec) {
  return [op = spec.op, ranks = spec.ranks](const Cost& cost, double seconds, int) -> Metrics {
    const double algbw = cost.bytes / seconds / 1e9;
    const double latency_us = seconds * 1e6;
    if (ranks == 1) return {{"latency_us", latency_us}, {"algbw_gb_per_s", algbw}};
    return {{"busbw_gb_per_s", algbw * bus_factor(op, ranks)}, {"algbw_gb_per_s", algbw}, {"latency_us", latency_us}};
  };
}

/// Adds a collective. `how` is empty or OneByOne.
template <class... How>
void add(Session& session, const CollectiveSpec& spec, How... how) {
  session.add(spec, figures_of(spec), how...);
}

/// If there are several hosts, adds the collective within each host, on all hosts at once. The result shows GPUs and
/// their links, without the network between hosts.
inline void add_inside_hosts(Session& session, CollectiveSpec spec) {
  if (session.ranks_per_host() == session.ranks() || session.ranks_per_host() == 1) return;
  spec.ranks = session.ranks_per_host();
  spec.scope = Scope::node;
  add(session, spec);
}

}  // namespace shakedown
