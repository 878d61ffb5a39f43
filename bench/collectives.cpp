// The collectives beside AllReduce: all_gather, reduce_scatter, alltoall, broadcast, reduce, and sendrecv around a
// ring.
//
//   mpirun -np 4 build/bench/bench_collectives --benchmark_filter=op:all_gather
#include <set>

#include "fixtures/session.hpp"

namespace shakedown {

namespace {

constexpr CollectiveOp operations[] = {CollectiveOp::all_gather, CollectiveOp::reduce_scatter, CollectiveOp::alltoall,
                                       CollectiveOp::broadcast,  CollectiveOp::reduce,         CollectiveOp::sendrecv};

/// busbw / algbw as nccl-tests defines it (doc/PERFORMANCE.md). Of the whole of n parts a rank needs all but its own
/// from others, or others from it: (n - 1) / n. Where every rank gets or gives everything, the two are the same.
double bus_factor(CollectiveOp op, int ranks) {
  switch (op) {
    case CollectiveOp::all_gather:
    case CollectiveOp::reduce_scatter:
    case CollectiveOp::alltoall: return static_cast<double>(ranks - 1) / ranks;
    case CollectiveOp::broadcast:
    case CollectiveOp::reduce:
    case CollectiveOp::sendrecv: return 1;
  }
  throw std::invalid_argument("unknown operation");
}

/// algbw = S / t, where S is the size that really moved. One rank moves nothing between GPUs and has a latency only.
Figures figures_of(CollectiveOp op) {
  return [op](const Cost& cost, double seconds, int ranks) -> Metrics {
    const double algbw = cost.bytes / seconds / 1e9;
    const double latency_us = seconds * 1e6;
    if (ranks == 1) return {{"latency_us", latency_us}, {"algbw_gb_per_s", algbw}};
    return {{"busbw_gb_per_s", algbw * bus_factor(op, ranks)}, {"algbw_gb_per_s", algbw}, {"latency_us", latency_us}};
  };
}

std::set<std::size_t> sizes_for(const Session& session) {
  constexpr std::size_t kib = std::size_t{1} << 10, mib = std::size_t{1} << 20, gib = std::size_t{1} << 30;
  if (session.backend() == Backend::host) return {8, 64 * kib, 4 * mib};
  std::set<std::size_t> sizes{8, mib, 128 * mib, gib};
  if (!session.full()) return sizes;
  sizes.insert({16 * mib, 4 * gib});
  for (std::size_t bytes = 8; bytes <= 8 * gib; bytes *= 4) sizes.insert(bytes);
  return sizes;
}

}  // namespace

void register_benchmarks(Session& session) {
  for (const auto op : operations) {
    for (const auto bytes : sizes_for(session)) {
      session.add(CollectiveSpec{op, DType::f32, bytes, session.ranks()}, figures_of(op));
    }
  }
}

}  // namespace shakedown
