// Copies between host and GPU, from and to pinned memory on the NUMA node of the GPU. Measures each GPU alone and all
// at once. The full tier also uses the far NUMA node.
//
//   mpirun -np 4 build/bench/bench_pcie --benchmark_filter=active:one
#include "fixtures/plan/session.hpp"
#include "kernels/ops/copy.hpp"

namespace shakedown {

namespace {

/// Counts each byte once. A bidirectional copy counts the sum of both directions. 1 GB is 1e9 bytes.
Metrics figures(const Cost& cost, double seconds, int) { return {{"copy_gb_per_s", cost.bytes / seconds / 1e9}}; }

}  // namespace

void register_pcie(Session& session) {
  constexpr std::size_t bytes = std::size_t{256} << 20;
  const bool full = session.full();
  // The host backend has no GPU to copy to. One row is enough to report this.
  if (!session.has_gpus()) return session.add(PcieSpec{PcieOp::h2d, bytes}, figures);
  for (const auto op : {PcieOp::h2d, PcieOp::d2h, PcieOp::both}) {
    session.add(PcieSpec{op, bytes}, figures);
    if (full) session.add(PcieSpec{op, bytes, std::nullopt, true}, figures);
    for (int rank = 0; rank < session.ranks_per_host() && (full || op != PcieOp::both); ++rank) {
      session.add(PcieSpec{op, bytes, rank}, figures);
      if (full) session.add(PcieSpec{op, bytes, rank, true}, figures);
    }
  }
}

}  // namespace shakedown
