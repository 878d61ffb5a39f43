// Peer copies: every ordered pair of ranks of a host, one pair at a time, all hosts at once; both directions of a pair;
// all ranks at once, each to the rank `shift` places behind it. "read" is pulled by the destination, "write" is pushed
// by the source; the value stands at the destination's rank. And the latency of one load from a peer's memory.
//
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

void add_shifts(Session& session, CopyOp op, Engine engine, std::size_t bytes) {
  // On the host the first step proves all that the others would.
  const int last = session.backend() == Backend::cuda ? session.ranks_per_host() - 1 : 1;
  for (int shift = 1; shift <= std::max(last, 1); ++shift) {
    add_pair(session, PeerShiftSpec{op, engine, shift, bytes}, bandwidth);
  }
}

void add_latencies(Session& session, Engine engine) {
  each_pair(session, [&](int src, int dst) {
    const PeerLatencySpec spec{engine, src, dst, latency_bytes};
    const auto count = static_cast<double>(accesses(spec));
    add_pair(session, spec, [count](const Cost&, double seconds, int) -> Metrics {
      return {{"latency_us", seconds / count * 1e6}};
    });
  });
}

}  // namespace

void register_p2p(Session& session) {
  const bool cuda = session.backend() == Backend::cuda, full = session.options().tier == "full";
  const auto engine = cuda ? Engine::ce : Engine::cpu;
  const std::size_t bytes = std::size_t{1} << (cuda ? 30 : 26);
  for (const auto op : {CopyOp::read, CopyOp::write}) {
    add_pairs(session, op, engine, bytes);
    // The shifts by kernels use every link as well, in a fraction of the time of all pairs.
    if (cuda) add_shifts(session, op, Engine::sm, bytes);
    if (cuda && full) add_pairs(session, op, Engine::sm, bytes);
    if (cuda && full) add_both_ways(session, op, Engine::sm, bytes);
    if (op == CopyOp::write || full) add_both_ways(session, op, engine, bytes);
    if (op == CopyOp::write || full) add_shifts(session, op, engine, bytes);
  }
  add_latencies(session, cuda ? Engine::sm : Engine::cpu);
}

}  // namespace shakedown
