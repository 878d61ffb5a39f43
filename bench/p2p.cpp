// Peer copies. In a row with a shift, all ranks of a host copy at once, each from or to the rank that is `shift` places
// after it. The n - 1 shifts cover every ordered pair, and load both directions of every port. More rows measure the
// latency of one load from the memory of a peer. For "read" the destination copies, for "write" the source does; the
// value is stored at the rank of the destination. A pair with a low value is then measured alone. The full tier, or a
// filter that names a pair, measures every pair alone, in each direction and in both at once. Copies between hosts of
// one NVLink domain (GB200 NVL72) are waived.
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

constexpr std::size_t latency_bytes = std::size_t{2} << 20;  // as in the latency tests of nvbandwidth

/// Counts each byte once. A bidirectional copy counts the sum of both directions. 1 GB is 1e9 bytes.
Metrics bandwidth(const Cost& cost, double seconds, int) { return {{"copy_gb_per_s", cost.bytes / seconds / 1e9}}; }

/// Adds a pair. On a host with one rank, adds the pair 0, 1 as a waived row, so that the result says why it is missing.
template <class Spec>
void add_pair(Session& session, const Spec& spec, const Figures& figures) {
  if (session.ranks_per_host() > 1) return session.add(spec, figures);
  session.add({key(spec), cost(spec), footprint(spec),
               [](Device&) -> std::unique_ptr<Work> {
                 throw Unsupported("each host has only one rank, so there is no peer to copy to");
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

/// Adds a waived row if NVLink connects the GPUs of several hosts, so that the result says what was not measured.
void add_domain(Session& session, std::size_t bytes) {
  const auto domain = session.nvlink_domain();
  if (!session.has_gpus() || !domain) return;
  const PeerShiftSpec spec{CopyOp::read, Engine::ce, session.ranks_per_host(), bytes};
  auto name = Key("p2p").set("op", spec.op).set("engine", spec.engine).set("scope", "domain").set("shift", spec.shift);
  session.add({name.set("bytes", bytes).text(), cost(spec), footprint(spec),
               [=, of_host = session.ranks_per_host()](Device&) -> std::unique_ptr<Work> {
                 throw Unsupported("NVLink connects " + std::to_string(*domain) + " GPUs, and a host has " +
                                   std::to_string(of_host) +
                                   ": copies between hosts need memory that is shared by fabric handles "
                                   "(cuMemExportToShareableHandle), which this version does not have");
               },
               bandwidth});
}

using Measured = std::map<std::string, std::vector<RankData>>;

/// Returns the fraction of the upper quartile below which a copy is low. Copies with equal load differ by 0.1 % between
/// GPUs, and fail from 2.5 % on. The fraction for ranks on CPUs is lower, because they share cores.
double low_part(bool gpus) { return gpus ? 0.98 : 0.25; }

/// Adds the pairs whose copies are low in the shifts of an operation. In a shift, other traffic over the two ports can
/// make a copy slow; in the pair alone, only the link can.
void add_low_pairs(Session& session, const Measured& measured, Engine engine, std::size_t bytes) {
  for (const auto op : {CopyOp::read, CopyOp::write}) {
    std::map<std::pair<int, int>, double> copies;  // by local ranks of the pair: the lowest value of all hosts
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
    const double low = low_part(session.has_gpus()) * quantile(all, 0.75);
    for (const auto& [pair, value] : copies) {
      if (value < low) add_pair(session, PeerCopySpec{op, engine, pair.first, pair.second, bytes}, bandwidth);
    }
  }
}

}  // namespace

void register_p2p(Session& session) {
  const bool cuda = session.has_gpus(), full = session.full(), gate = session.gate();
  const auto engine = cuda ? Engine::ce : Engine::cpu, loads = cuda ? Engine::sm : Engine::cpu;
  const std::size_t bytes = std::size_t{1} << (cuda ? 30 : 26);
  const bool named = session.options().filter.find("src:") != std::string::npos;
  // A host with one rank adds a pair, to report that it has no pairs.
  const bool pairs = full || named || session.ranks_per_host() < 2;
  for (const auto op : {CopyOp::read, CopyOp::write}) {
    add_shifts(session, op, engine, bytes);
    if (cuda && !gate) add_shifts(session, op, Engine::sm, bytes);
    if (pairs) add_pairs(session, op, engine, bytes);
    if (full || named) add_both_ways(session, op, engine, bytes);
    if (cuda && (full || named)) add_pairs(session, op, Engine::sm, bytes);
    if (cuda && full) add_both_ways(session, op, Engine::sm, bytes);
  }
  // A kernel that reads sends a request for each line. The requests compete with the data that other GPUs read from
  // this GPU, which gives 337 GB/s. Without that data the rate is 375 GB/s.
  if (cuda && full) add_pair(session, PeerShiftSpec{CopyOp::read, Engine::sm, 1, bytes, true}, bandwidth);
  if (!gate) {
    each_shift(session, [&](int shift) { add_latency(session, PeerLatencyShiftSpec{loads, shift, latency_bytes}); });
  }
  add_domain(session, bytes);
  if (!pairs) {
    session.then([=](Session& s, const auto& measured) {
      add_low_pairs(s, measured, engine, bytes);
      if (cuda) add_low_pairs(s, measured, Engine::sm, bytes);
    });
  }
  if (!pairs || gate) return;
  each_pair(session, [&](int src, int dst) { add_latency(session, PeerLatencySpec{loads, src, dst, latency_bytes}); });
}

}  // namespace shakedown
