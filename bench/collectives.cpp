// The collectives except AllReduce: all_gather, reduce_scatter, alltoall, broadcast, reduce, and sendrecv around a
// ring. On request, also an exchange of unequal parts, alltoallv.
//
//   mpirun -np 4 build/bench/bench_collectives --benchmark_filter=op:all_gather --sizes=1M,64M
//   mpirun -np 4 build/bench/bench_collectives --benchmark_filter=op:alltoallv
#include <set>

#include "bench/collective.hpp"
#include "kernels/ops/exchange.hpp"

namespace shakedown {

namespace {

constexpr CollectiveOp operations[] = {CollectiveOp::all_gather, CollectiveOp::reduce_scatter, CollectiveOp::alltoall,
                                       CollectiveOp::broadcast,  CollectiveOp::reduce,         CollectiveOp::sendrecv};

std::set<std::size_t> sizes_for(const Session& session) {
  const auto& given = session.options().sizes;
  if (!given.empty()) return {given.begin(), given.end()};
  constexpr std::size_t kib = std::size_t{1} << 10, mib = std::size_t{1} << 20, gib = std::size_t{1} << 30;
  if (!session.has_gpus()) return {8, 64 * kib, 4 * mib};
  std::set<std::size_t> sizes{mib, 128 * mib, gib};
  if (!session.full()) return sizes;  // small AllReduces already measure the launch latency of NCCL
  sizes.insert({16 * mib, 4 * gib});
  for (std::size_t bytes = 8; bytes <= 8 * gib; bytes *= 4) sizes.insert(bytes);
  return sizes;
}

/// Adds an exchange of equal parts (skew 0) and one of unequal parts. No stored run has them.
void add_exchanges(Session& session) {
  constexpr int max_ranks = 1024;  // the lengths of all parts are known on each rank
  if (session.ranks() == 1 || session.ranks() > max_ranks) return;
  constexpr std::size_t mib = std::size_t{1} << 20;
  for (const int skew : {0, 2}) {
    const ExchangeSpec spec{session.has_gpus() ? 1024 * mib : 4 * mib, session.ranks(), skew};
    if (!session.requests(key(spec))) continue;  // the lengths need memory for each pair of ranks
    const auto busiest = static_cast<double>(ExchangeParts(spec).busiest());
    Measurement row = measurement_of(spec, [busiest](const Cost&, double seconds, int) -> Metrics {
      return {{"busiest_gb_per_s", busiest / seconds / 1e9}, {"latency_us", seconds * 1e6}};
    });
    row.on_request = true;
    session.add(std::move(row));
  }
}

}  // namespace

void register_collectives(Session& session) {
  for (const auto op : operations) {
    for (const auto bytes : sizes_for(session)) {
      add(session, CollectiveSpec{op, DType::f32, bytes, session.ranks()});
    }
    if (!session.options().sizes.empty()) continue;
    for (const auto bytes : sizes_for(session)) add_inside_hosts(session, CollectiveSpec{op, DType::f32, bytes});
  }
  if (!session.options().sizes.empty()) return;
  add_exchanges(session);
}

}  // namespace shakedown
