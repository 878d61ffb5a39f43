// Peer copies: all ranks of a host at once, each to the rank `shift` places behind it, which uses every ordered pair in
// n - 1 rows; and the latency of one load from a peer's memory. "read" is pulled by the destination, "write" is pushed
// by the source; the value stands at the destination's rank. A pair whose value is low among the others is then
// measured alone. The full tier, or a filter that names a pair, has every pair alone, and both directions of each: a
// shift loads both directions of every port, too.
//
//   mpirun -np 4 build/bench/bench_p2p
//   mpirun -np 4 build/bench/bench_p2p --benchmark_filter=src:0/dst:1
#include <algorithm>
#include <functional>
#include <string>

#include "fixtures/session.hpp"

namespace shakedown {

namespace {

constexpr std::size_t latency_bytes = std::size_t{2} << 20;  // as nvbandwidth's latency tests

/// Bytes once; of both directions, their sum. 1 GB = 1e9 bytes.
Metrics bandwidth(const Cost& cost, double seconds, int) { return {{"copy_gb_per_s", cost.bytes / seconds / 1e9}}; }

/// A host with one rank has no pair. The pair 0, 1 is then waived rather than left out, so that the result says why.
template <class Spec>
void add_pair(Session& session, const Spec& spec, const Figures& figures) {
  if (session.ranks_per_host() > 1) return session.add(spec, figures);
  session.add({key(spec), cost(spec), footprint(spec),
               [](Device&) -> std::unique_ptr<Work> {
                 throw Unsupported("a host has one rank only: there is no peer to copy to");
               },
               figures});
}

void each_pair(const Session& session, const std::function<void(int, int)>& add) {
  const int ranks = session.ranks_per_host();
  if (ranks < 2) add(0, 1);
  for (int src = 0; src < ranks; ++src) {
    for (int dst = 0; dst < ranks; ++dst) {
      if (src != dst) add(src, dst);
    }
  }
}

void add_pairs(Session& session, CopyOp op, Engine engine, std::size_t bytes) {
  each_pair(session, [&](int src, int dst) {
    add_pair(session, PeerCopySpec{op, engine, src, dst, bytes}, bandwidth);
  });
}

void add_both_ways(Session& session, CopyOp op, Engine engine, std::size_t bytes) {
  each_pair(session, [&](int src, int dst) {
    if (src < dst) add_pair(session, PeerCopySpec{op, engine, src, dst, bytes, true}, bandwidth);
  });
}

void each_shift(const Session& session, const std::function<void(int)>& add) {
  for (int shift = 1; shift < std::max(session.ranks_per_host(), 2); ++shift) add(shift);
}

void add_shifts(Session& session, CopyOp op, Engine engine, std::size_t bytes) {
  each_shift(session, [&](int shift) { add_pair(session, PeerShiftSpec{op, engine, shift, bytes}, bandwidth); });
}

template <class Spec>
void add_latency(Session& session, const Spec& spec) {
  const auto count = static_cast<double>(accesses(spec));
  add_pair(session, spec, [count](const Cost&, double seconds, int) -> Metrics {
    return {{"latency_us", seconds / count * 1e6}};
  });
}

}  // namespace

void register_p2p(Session& session) {
  const bool cuda = session.backend() == Backend::cuda, full = session.full();
  const auto engine = cuda ? Engine::ce : Engine::cpu, loads = cuda ? Engine::sm : Engine::cpu;
  const std::size_t bytes = std::size_t{1} << (cuda ? 30 : 26);
  const bool named = session.options().filter.find("src:") != std::string::npos;
  // A host with one rank says so in a pair.
  const bool pairs = full || named || session.ranks_per_host() < 2;
  for (const auto op : {CopyOp::read, CopyOp::write}) {
    add_shifts(session, op, engine, bytes);
    if (cuda) add_shifts(session, op, Engine::sm, bytes);
    if (pairs) add_pairs(session, op, engine, bytes);
    if (full || named) add_both_ways(session, op, engine, bytes);
    if (cuda && (full || named)) add_pairs(session, op, Engine::sm, bytes);
    if (cuda && full) add_both_ways(session, op, Engine::sm, bytes);
  }
  // Reads by kernels send a request for each line, beside the data of those who read from them (337 GB/s): without,
  // 375.
  if (cuda && full) add_pair(session, PeerShiftSpec{CopyOp::read, Engine::sm, 1, bytes, true}, bandwidth);
  each_shift(session, [&](int shift) { add_latency(session, PeerLatencyShiftSpec{loads, shift, latency_bytes}); });
  if (!pairs) return;
  each_pair(session, [&](int src, int dst) { add_latency(session, PeerLatencySpec{loads, src, dst, latency_bytes}); });
}

}  // namespace shakedown
