// AllReduce: the sum over all ranks, from 8 bytes (latency) to gigabytes (bandwidth). Variants: place:in, launch:graph
// (a batch recorded once and replayed), timing:single (the tail of the times of operations started one by one).
//
//   mpirun -np 4 build/bench/bench_allreduce --benchmark_format=json > allreduce.json
#include <set>

#include "fixtures/session.hpp"

namespace shakedown {

namespace {

/// algbw = S / t and busbw = algbw x 2 (n - 1) / n, as nccl-tests defines them (doc/PERFORMANCE.md): each of n ranks
/// must send and receive that part of S at least. One rank moves nothing and has a latency only.
Metrics figures(const Cost& cost, double seconds, int ranks) {
  const double algbw = cost.bytes / seconds / 1e9;
  const double latency_us = seconds * 1e6;
  if (ranks == 1) return {{"latency_us", latency_us}, {"algbw_gb_per_s", algbw}};
  return {{"busbw_gb_per_s", algbw * 2 * (ranks - 1) / ranks}, {"algbw_gb_per_s", algbw}, {"latency_us", latency_us}};
}

constexpr std::size_t kib = std::size_t{1} << 10, mib = std::size_t{1} << 20, gib = std::size_t{1} << 30;

using Sizes = std::set<std::size_t>;

/// From 8 bytes to `largest` by this factor, and the sizes named besides.
Sizes sweep(std::size_t largest, std::size_t factor, const Sizes& besides = {}) {
  Sizes sizes = besides;
  for (std::size_t bytes = 8; bytes <= largest; bytes *= factor) sizes.insert(bytes);
  return sizes;
}

void add(Session& session, DType dtype, const Sizes& sizes, Place place = Place::out, Launch launch = Launch::stream) {
  for (const auto bytes : sizes) session.add(AllReduceSpec{dtype, bytes, place, launch}, figures);
}

/// The sizes that published results have: 1 MiB, 16 MiB, 1 GiB and 4 GiB by powers of two, 1, 10, 100 and 1000 MiB.
Sizes published() { return {mib, 10 * mib, 16 * mib, 100 * mib, 1000 * mib, gib, 4 * gib}; }

void register_on_gpus(Session& session) {
  const bool full = session.full();
  const Sizes landmarks{8, mib, 128 * mib, gib};
  add(session, DType::f32, sweep(8 * gib, full ? 2 : 4, published()));
  for (const auto dtype : {DType::f16, DType::bf16}) {
    add(session, dtype, full ? sweep(8 * gib, 4, published()) : landmarks);
  }
  // One rank has nothing to do in place.
  if (session.ranks() > 1) add(session, DType::f32, full ? sweep(8 * gib, 8, landmarks) : landmarks, Place::in);
  add(session, DType::f32, full ? sweep(64 * kib, 2) : Sizes{8, kib, 64 * kib}, Place::out, Launch::graph);
  session.add(AllReduceSpec{DType::f32, 8}, figures, OneByOne{full ? 10000 : 1000});
  if (full) session.add(AllReduceSpec{DType::f32, mib}, figures, OneByOne{10000});
}

void register_on_hosts(Session& session) {
  add(session, DType::f32, sweep(256 * mib, 4, {256 * mib}));
  add(session, DType::f64, {8, mib, 64 * mib});
  if (session.ranks() > 1) add(session, DType::f32, {mib}, Place::in);
  session.add(AllReduceSpec{DType::f32, 8}, figures, OneByOne{session.full() ? 1000 : 100});
}

}  // namespace

void register_benchmarks(Session& session) {
  session.backend() == Backend::cuda ? register_on_gpus(session) : register_on_hosts(session);
}

}  // namespace shakedown
