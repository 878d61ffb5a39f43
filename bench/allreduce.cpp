// AllReduce: the sum over all ranks, out of place, from 8 bytes (latency) to gigabytes (bandwidth).
//
//   mpirun -np 4 build/bench/bench_allreduce --benchmark_format=json > allreduce.json
#include <algorithm>
#include <set>

#include "fixtures/session.hpp"

namespace shakedown {

namespace {

/// algbw = S / t and busbw = algbw x 2 (n - 1) / n, as nccl-tests defines them (doc/PERFORMANCE.md): each of n ranks
/// must send and receive that part of S at least. One rank moves nothing and has a latency only.
Metrics figures(const Cost& cost, double seconds, int ranks) {
  const double algbw = cost.bytes / seconds / 1e9;
  const double latency_us = seconds * 1e6;
  if (ranks == 1) return {{"latency_us", latency_us}, {"algbw_gbps", algbw}};
  return {{"busbw_gbps", algbw * 2 * (ranks - 1) / ranks}, {"algbw_gbps", algbw}, {"latency_us", latency_us}};
}

/// From 8 bytes to `largest` by factors of 4, and the sizes named besides.
std::set<std::size_t> sweep(std::size_t largest, std::initializer_list<std::size_t> besides) {
  std::set<std::size_t> sizes(besides);
  for (std::size_t bytes = 8; bytes <= largest; bytes *= 4) sizes.insert(bytes);
  return sizes;
}

}  // namespace

void register_benchmarks(Session& session) {
  constexpr std::size_t mib = std::size_t{1} << 20;
  constexpr std::size_t gib = std::size_t{1} << 30;
  if (session.backend() == Backend::cuda) {
    // 1 MiB, 16 MiB, 1 GiB and 4 GiB beside the sweep: the sizes that published results have.
    for (const auto bytes : sweep(8 * gib, {mib, 16 * mib, gib, 4 * gib})) {
      session.add(AllReduceSpec{DType::f32, bytes}, figures);
    }
  } else {
    for (const auto bytes : sweep(256 * mib, {256 * mib})) session.add(AllReduceSpec{DType::f32, bytes}, figures);
    for (const auto bytes : {std::size_t{8}, mib, 64 * mib}) session.add(AllReduceSpec{DType::f64, bytes}, figures);
  }
}

}  // namespace shakedown
