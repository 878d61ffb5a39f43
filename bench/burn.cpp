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

/// The quick tier waives the row on GPUs, unless a filter selects it.
void register_burn(Session& session) {
  const int ranks = session.ranks(), per_host = session.ranks_per_host();
  if (!session.has_gpus()) {
    session.add(BurnSpec{{DType::f32, 256, 256, 256}, Engine::cpu, std::size_t{1} << 20, ranks, per_host}, figures);
    return;
  }
  constexpr int n = 8192;
  const GemmSpec gemm{.dtype = DType::bf16, .m = n, .n = n, .k = n, .load = Load::sustained};
  auto row = measurement_of(BurnSpec{gemm, Engine::ce, std::size_t{1} << 30, ranks, per_host}, figures);
  row.min_seconds = burn_seconds;
  row.on_request = !session.full();
  if (row.on_request) {
    session.add({"burn",
                 {},
                 0,
                 [](Device&) -> std::unique_ptr<Work> {
                   throw Unsupported("the full tier measures it, or --benchmark_filter=burn/.*bytes");
                 },
                 nullptr});
  }
  session.add(std::move(row));
}

}  // namespace shakedown
