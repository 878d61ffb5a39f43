// Peer copies: every ordered pair of ranks of a host, one pair at a time, all hosts at once. "read" is pulled by the
// destination, "write" is pushed by the source; the value stands at the destination's rank.
//
//   mpirun -np 4 build/bench/bench_p2p --benchmark_filter=src:0/dst:1
#include <string>

#include "fixtures/session.hpp"

namespace shakedown {

namespace {

/// Bytes in one direction, once. 1 GB = 1e9 bytes.
Metrics figures(const Cost& cost, double seconds, int) { return {{"copy_gbps", cost.bytes / seconds / 1e9}}; }

/// A host with one rank has no pair. The pair 0, 1 is then waived rather than left out, so that the result says why.
void add_waived(Session& session, const PeerCopySpec& spec) {
  session.add({key(spec), cost(spec), footprint(spec),
               [](Device&) -> std::unique_ptr<Work> {
                 throw Unsupported("a host has one rank only: there is no peer to copy to");
               },
               figures});
}

}  // namespace

void register_benchmarks(Session& session) {
  const bool cuda = session.backend() == Backend::cuda;
  const auto engine = cuda ? Engine::ce : Engine::cpu;
  const std::size_t bytes = std::size_t{1} << (cuda ? 30 : 26);
  const int ranks = session.ranks_per_host();
  for (const auto op : {CopyOp::read, CopyOp::write}) {
    if (ranks < 2) add_waived(session, {op, engine, 0, 1, bytes});
    for (int src = 0; src < ranks; ++src) {
      for (int dst = 0; dst < ranks; ++dst) {
        if (src != dst) session.add(PeerCopySpec{op, engine, src, dst, bytes}, figures);
      }
    }
  }
}

}  // namespace shakedown
