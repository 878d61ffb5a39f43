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
#include <map>
#include <string>
#include <utility>

#include "base/statistics.hpp"
#include "fixtures/plan/session.hpp"
#include "kernels/ops/copy.hpp"

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

using Measured = std::map<std::string, std::vector<RankData>>;

/// Copies in which others have as much to do differ by 0.1 % between GPUs. Ranks of a CPU share its cores.
double low_part(Backend backend) { return backend == Backend::cuda ? 0.97 : 0.25; }

/// In each shift of one operation, the pairs whose copy is low among all of its copies: a row says that much, a pair
/// alone whether it is the link, or what else goes over the ports of the two.
void add_low_pairs(Session& session, const Measured& measured, Engine engine, std::size_t bytes) {
  for (const auto op : {CopyOp::read, CopyOp::write}) {
    std::map<std::pair<int, int>, double> copies;  // of local ranks; the lowest of all hosts
    std::vector<double> all;
    each_shift(session, [&](int shift) {
      const auto row = measured.find(key(PeerShiftSpec{op, engine, shift, bytes}));
      if (row == measured.end()) return;
      const auto values = row->second.back().by_rank.find("copy_gb_per_s");
      if (values == row->second.back().by_rank.end()) return;
      for (std::size_t rank = 0; rank < values->second.size(); ++rank) {
        if (!values->second[rank]) continue;
        const double value = *values->second[rank];
        const auto [dst, n] = session.place(rank);
        const auto entry = copies.emplace(std::pair((dst + n - shift) % n, dst), value).first;
        entry->second = std::min(entry->second, value);
        all.push_back(value);
      }
    });
    if (all.empty()) continue;
    const double low = low_part(session.backend()) * quantile(all, 0.75);
    for (const auto& [pair, value] : copies) {
      if (value < low) add_pair(session, PeerCopySpec{op, engine, pair.first, pair.second, bytes}, bandwidth);
    }
  }
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
  if (!pairs) {
    session.then([=](Session& s, const auto& measured) {
      add_low_pairs(s, measured, engine, bytes);
      if (cuda) add_low_pairs(s, measured, Engine::sm, bytes);
    });
  }
  if (!pairs) return;
  each_pair(session, [&](int src, int dst) { add_latency(session, PeerLatencySpec{loads, src, dst, latency_bytes}); });
}

}  // namespace shakedown
