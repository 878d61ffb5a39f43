// The exchange of tokens of a mixture-of-experts layer: dispatch to the ranks of the experts, combine of their outputs,
// with equally popular experts (skew 0) and with popular and rare ones.
//
//   mpirun -np 2 build/bench/bench_moe --benchmark_filter='moe/.*experts'
#include <utility>

#include "fixtures/plan/session.hpp"
#include "kernels/ops/moe.hpp"

namespace shakedown {

/// The rows run only on request, because a run for every node must be short. The waived row says so.
void register_moe(Session& session) {
  session.add_on_request("moe/op:dispatch", "moe/.*experts");
  if (session.ranks() == 1 || session.ranks() > MoeRouting::max_ranks) return;
  for (const auto op : {MoeOp::dispatch, MoeOp::combine}) {
    for (const int skew : {0, 2}) {
      MoeSpec spec{.op = op, .skew = skew, .ranks = session.ranks()};
      if (!session.has_gpus()) spec.experts = 64, spec.top = 4, spec.hidden = 256, spec.tokens = 256;
      Measurement row = measurement_of(spec, [](const Cost& cost, double seconds, int) -> Metrics {
        return {{"busbw_gb_per_s", cost.bytes / seconds / 1e9}, {"latency_us", seconds * 1e6}};
      });
      row.on_request = true;
      session.add(std::move(row));
    }
  }
}

}  // namespace shakedown
