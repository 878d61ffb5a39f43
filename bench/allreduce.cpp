// AllReduce: the sum over all ranks, for sizes from 8 bytes (latency) to gigabytes (bandwidth). Variants: place:in
// works in place; launch:graph captures a batch once and replays it; timing:single launches operations one by one and
// measures tail latency. On request, via:net sends all data over the network, also between the ranks of a host,
// and memory:symmetric uses NCCL's symmetric windows.
//
//   mpirun -np 4 build/bench/bench_allreduce --benchmark_format=json > allreduce.json
//   mpirun -np 8 build/bench/bench_allreduce --benchmark_filter=via:net
//   NCCL_NVLS_ENABLE=0 mpirun -np 2 build/bench/bench_allreduce --benchmark_filter='launch:graph'
#include <set>
#include <string>
#include <utility>

#include "bench/collective.hpp"

namespace shakedown {

namespace {

constexpr std::size_t kib = std::size_t{1} << 10, mib = std::size_t{1} << 20, gib = std::size_t{1} << 30;

using Sizes = std::set<std::size_t>;

/// Returns the sizes from 8 bytes to `largest`, each `factor` times the previous one, and the sizes in `besides`.
Sizes sweep(std::size_t largest, std::size_t factor, const Sizes& besides = {}) {
  Sizes sizes = besides;
  for (std::size_t bytes = 8; bytes <= largest; bytes *= factor) sizes.insert(bytes);
  return sizes;
}

void add(Session& session, DType dtype, const Sizes& sizes, Place place = Place::out, Launch launch = Launch::stream) {
  for (const auto bytes : sizes) {
    add(session, CollectiveSpec{CollectiveOp::all_reduce, dtype, bytes, session.ranks(), place, launch});
  }
}

void add_one_by_one(Session& session, std::size_t bytes, int samples) {
  add(session, CollectiveSpec{CollectiveOp::all_reduce, DType::f32, bytes, session.ranks()}, OneByOne{samples});
}

void add_inside_hosts(Session& session, const Sizes& sizes) {
  for (const auto bytes : sizes) {
    add_inside_hosts(session, CollectiveSpec{CollectiveOp::all_reduce, DType::f32, bytes});
  }
}

/// Adds AllReduces that load each host's NICs, also between the ranks of one host. NCCL's settings for this apply to
/// the whole process, so a filter must name these rows.
void add_over_network(Session& session) {
  if (session.ranks() == 1 || session.options().filter.find("via:net") == std::string::npos) return;
  Sizes sizes{8, mib};
  sizes.insert(session.has_gpus() ? 128 * mib : 16 * mib);
  if (session.has_gpus() && session.full()) sizes.insert(gib);  // takes a minute where the network has less than 1 GB/s
  for (const auto bytes : sizes) {
    CollectiveSpec spec{CollectiveOp::all_reduce, DType::f32, bytes, session.ranks()};
    spec.via = Via::net;
    add(session, spec);
    add_inside_hosts(session, spec);
  }
}

/// Adds small AllReduces in symmetric memory from a graph. The same sizes in plain memory are among the usual rows.
void add_in_symmetric_memory(Session& session) {
  if (session.ranks() == 1) return;
  for (const auto bytes : Sizes{8, 64, kib, 4 * kib, 64 * kib}) {
    CollectiveSpec spec{CollectiveOp::all_reduce, DType::f32, bytes, session.ranks(), Place::out, Launch::graph};
    spec.memory = Memory::symmetric;
    Measurement row = measurement_of(spec, figures_of(spec));
    row.on_request = true;
    session.add(std::move(row));
  }
}

/// Returns the sizes for which other people publish results: 1 MiB, 16 MiB, 1 GiB and 4 GiB (powers of two), and 1, 10,
/// 100 and 1000 MiB.
Sizes published() { return {mib, 10 * mib, 16 * mib, 100 * mib, 1000 * mib, gib, 4 * gib}; }

/// Adds a size for the latency, one for the bandwidth, for which most profiles have limits, and one between them. A
/// single GPU moves no data to others: its row only proves that NCCL starts.
void register_for_gate(Session& session) {
  if (session.has_gpus() && session.ranks() == 1) return add(session, DType::f32, {8});
  const std::size_t middle = session.has_gpus() ? 16 * mib : 2 * mib, large = session.has_gpus() ? 8 * gib : 32 * mib;
  add(session, DType::f32, {8, middle, large});
  add_inside_hosts(session, {large});
}

void register_on_gpus(Session& session) {
  const bool full = session.full();
  const Sizes landmarks{8, mib, 128 * mib, gib};
  auto sizes = sweep(8 * gib, full ? 2 : 4, published());
  // The quick tier omits sizes that would find no faults except those that 1 and 8 GiB in f32 find.
  if (!full) {
    for (const auto bytes : {2 * gib, 4 * gib}) sizes.erase(bytes);
  }
  add(session, DType::f32, sizes);
  for (const auto dtype : {DType::f16, DType::bf16}) {
    add(session, dtype, full ? sweep(8 * gib, 4, published()) : Sizes{mib});
  }
  // With one rank, an in-place AllReduce is a no-op.
  if (session.ranks() > 1) add(session, DType::f32, full ? sweep(8 * gib, 8, landmarks) : Sizes{128 * mib}, Place::in);
  // For small messages the judge uses the times of the graph. These times repeat within 3 % from launch to launch,
  // while the times of operations that the host launches one by one vary by 50 %.
  const Sizes small{8, 64, kib, 4 * kib, 64 * kib, 256 * kib, 512 * kib};
  add(session, DType::f32, full ? sweep(512 * kib, 2, small) : small, Place::out, Launch::graph);
  add_inside_hosts(session, sizes);
  add_in_symmetric_memory(session);
  add_one_by_one(session, 8, full ? 10000 : 1000);
  if (full) add_one_by_one(session, mib, 10000);
}

void register_on_hosts(Session& session) {
  add(session, DType::f32, sweep(256 * mib, 4, {256 * mib}));
  add(session, DType::f64, {8, mib, 64 * mib});
  if (session.ranks() > 1) add(session, DType::f32, {mib}, Place::in);
  add_inside_hosts(session, {8, mib, 64 * mib});
  add_one_by_one(session, 8, session.full() ? 1000 : 100);
}

/// Adds the sizes of --sizes. NCCL runs small ones from a graph, because the times of operations that the host launches
/// one by one vary by 50 % from launch to launch.
void register_given_sizes(Session& session) {
  constexpr std::size_t max_small = 512 * kib;
  for (const auto bytes : session.options().sizes) {
    const bool from_graph = session.has_gpus() && session.ranks() > 1 && bytes <= max_small;
    add(session, DType::f32, {bytes}, Place::out, from_graph ? Launch::graph : Launch::stream);
  }
}

}  // namespace

void register_allreduce(Session& session) {
  if (!session.options().sizes.empty()) return register_given_sizes(session);
  if (session.gate()) return register_for_gate(session);
  session.has_gpus() ? register_on_gpus(session) : register_on_hosts(session);
  add_over_network(session);
}

}  // namespace shakedown
