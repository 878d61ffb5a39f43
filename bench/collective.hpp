// What a collective is measured in.
#pragma once

#include "fixtures/plan/session.hpp"
#include "kernels/ops/collective.hpp"

namespace shakedown {

/// algbw = S / t, where S is the size that really moved, and busbw as nccl-tests defines them. One rank moves nothing
/// between GPUs and has a latency only. `how`: nothing, or OneByOne.
template <class... How>
void add(Session& session, const CollectiveSpec& spec, How... how) {
  const auto figures = [op = spec.op, ranks = spec.ranks](const Cost& cost, double seconds, int) -> Metrics {
    const double algbw = cost.bytes / seconds / 1e9;
    const double latency_us = seconds * 1e6;
    if (ranks == 1) return {{"latency_us", latency_us}, {"algbw_gb_per_s", algbw}};
    return {{"busbw_gb_per_s", algbw * bus_factor(op, ranks)}, {"algbw_gb_per_s", algbw}, {"latency_us", latency_us}};
  };
  session.add(spec, figures, how...);
}

/// The same inside each host, all hosts at once, where there are several: what a GPU and its links do whatever lies
/// between hosts.
inline void add_inside_hosts(Session& session, CollectiveSpec spec) {
  if (session.ranks_per_host() == session.ranks() || session.ranks_per_host() == 1) return;
  spec.ranks = session.ranks_per_host();
  spec.scope = Scope::node;
  add(session, spec);
}

}  // namespace shakedown
