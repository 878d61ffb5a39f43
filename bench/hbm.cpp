// Memory bandwidth: reads and writes of arrays far larger than any cache, on every GPU (or host) at once. On the host,
// also the latency of one load from caches and from memory.
//
//   mpirun -np 4 build/bench/bench_hbm --tier=full

#include "fixtures/plan/session.hpp"
#include "kernels/ops/latency.hpp"
#include "kernels/ops/memory.hpp"

namespace shakedown {

namespace {

/// Counts the bytes that memory must read and write, as BabelStream does. 1 GB is 1e9 bytes.
Metrics traffic(const Cost& cost, double seconds, int) { return {{"hbm_gb_per_s", cost.bytes / seconds / 1e9}}; }

/// Reports a copy in both conventions: traffic, and copy_gb_per_s, which counts only the copied bytes and is half of
/// the traffic.
Metrics copy_figures(const Cost& cost, double seconds, int ranks) {
  auto figures = traffic(cost, seconds, ranks);
  figures.emplace_back("copy_gb_per_s", figures.front().second / 2);
  return figures;
}

void add(Session& session, HbmOp op, Engine engine, std::size_t bytes) {
  session.add(HbmSpec{op, engine, bytes}, op == HbmOp::copy ? copy_figures : traffic);
}

constexpr std::size_t kib = std::size_t{1} << 10, mib = std::size_t{1} << 20;

void add_latency(Session& session, std::size_t bytes) {
  const MemoryLatencySpec spec{Engine::cpu, bytes};
  const auto loads = static_cast<double>(accesses(spec));
  session.add(spec, [loads](const Cost&, double seconds, int) -> Metrics {
    return {{"latency_ns", seconds / loads * 1e9}};
  });
}

constexpr std::size_t judged_bytes = 4096 * mib;

/// True for the measurements of a gate: each direction, by kernels. A brief gate has only the copy.
bool is_in_gate(bool brief, HbmOp op, Engine engine, std::size_t bytes) {
  const bool is_direction = op == HbmOp::copy || (!brief && (op == HbmOp::read || op == HbmOp::write));
  return is_direction && engine == Engine::sm && bytes == judged_bytes;
}

/// True for the measurements of every acceptance: copies by size, and one size of read, write and triad.
bool is_quick(HbmOp op, std::size_t bytes) {
  switch (op) {
    case HbmOp::copy: return bytes == 256 * mib || bytes == 1024 * mib || bytes == judged_bytes;
    case HbmOp::read:
    case HbmOp::write:
    case HbmOp::triad: return bytes == judged_bytes;
    case HbmOp::scale:
    case HbmOp::add: break;
  }
  return false;
}

void add_sweep(Session& session, HbmOp op, Engine engine) {
  for (std::size_t bytes = 64 * mib; bytes <= 16384 * mib; bytes *= 4) {
    const bool is_wanted =
        session.full() || (session.gate() ? is_in_gate(session.brief(), op, engine, bytes) : is_quick(op, bytes));
    if (is_wanted) add(session, op, engine, bytes);
  }
}

}  // namespace

void register_hbm(Session& session) {
  if (session.has_gpus()) {
    for (const auto op : {HbmOp::copy, HbmOp::read, HbmOp::write, HbmOp::scale, HbmOp::add, HbmOp::triad}) {
      add_sweep(session, op, Engine::sm);
    }
    add_sweep(session, HbmOp::copy, Engine::ce);
  } else {
    add(session, HbmOp::copy, Engine::cpu, 256 * mib);
    for (const auto op : {HbmOp::read, HbmOp::write, HbmOp::triad}) add(session, op, Engine::cpu, 64 * mib);
    // The sizes are the same on every machine, so that machines can be compared. The first exceeds L1 and fits into the
    // L2 of any current core. The second exceeds L2 and fits into an L3 that ranks share. The third is in memory; a
    // part of it can be in an L3 of hundreds of MiB.
    if (session.gate()) return;
    for (const auto bytes : {256 * kib, 8 * mib, 256 * mib}) add_latency(session, bytes);
  }
}

}  // namespace shakedown
