// All GPUs at their highest load: products, copies and an AllReduce at the same time. The rate, clock, power and
// temperature of each GPU show weak power supplies and cooling.
//
//   mpirun -np 8 build/bench/bench_burn --benchmark_filter='burn/.*bytes'
//   build/bin/shakedown accept --tier=full --families=preflight,burn --for=1h
#include "kernels/ops/burn.hpp"
#include "fixtures/plan/session.hpp"

namespace shakedown {

namespace {

constexpr double burn_seconds = 10;  // the power limit takes effect within a second, and a heat sink is warm after some

Metrics figures(const Cost& cost, double seconds, int) { return {{"tflops", cost.flops / seconds / 1e12}}; }

}  // namespace

/// The full tier measures GPUs. Otherwise the row runs only on request, and the waived row says so.
void register_burn(Session& session) {
  const bool gpus = session.has_gpus();
  BurnSpec spec{.gemm = {DType::f32, 256, 256, 256},
                .engine = Engine::cpu,
                .bytes = std::size_t{1} << 20,
                .ranks = session.ranks(),
                .ranks_per_host = session.ranks_per_host()};
  if (gpus) {
    constexpr int n = 8192;
    spec.gemm = {.dtype = DType::bf16, .m = n, .n = n, .k = n, .load = Load::sustained};
    spec.engine = Engine::ce;
    spec.bytes = std::size_t{1} << 30;
  }
  auto row = measurement_of(spec, figures);
  row.min_seconds = gpus ? burn_seconds : 0;
  row.on_request = !gpus || !session.full();
  if (row.on_request) session.add_on_request("burn/of:rates", "burn/.*bytes");
  session.add(std::move(row));
}

}  // namespace shakedown
