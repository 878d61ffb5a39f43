// What a collective is measured in.
#pragma once

#include "fixtures/session.hpp"

namespace shakedown {

/// algbw = S / t, where S is the size that really moved, and busbw as nccl-tests defines them. One rank moves nothing
/// between GPUs and has a latency only. `how`: nothing, or OneByOne.
template <class... How>
void add(Session& session, const CollectiveSpec& spec, How... how) {
  const auto figures = [op = spec.op](const Cost& cost, double seconds, int ranks) -> Metrics {
    const double algbw = cost.bytes / seconds / 1e9;
    const double latency_us = seconds * 1e6;
    if (ranks == 1) return {{"latency_us", latency_us}, {"algbw_gb_per_s", algbw}};
    return {{"busbw_gb_per_s", algbw * bus_factor(op, ranks)}, {"algbw_gb_per_s", algbw}, {"latency_us", latency_us}};
  };
  session.add(spec, figures, how...);
}

}  // namespace shakedown
