// Host time of the call that launches a kernel, and of the call that launches a graph of kernels, one by one. A long
// time shows a CPU that is slow, far from its GPU or disturbed. In training, such a CPU leaves its GPU idle.
//
//   mpirun -np 4 build/bench/bench_launch
#include "kernels/ops/launch.hpp"
#include "bench/retest.hpp"

namespace shakedown {

namespace {

constexpr int calls = 400;

Metrics figures(const Cost&, double seconds, int) { return {{"launch_us", seconds * 1e6}}; }

}  // namespace

void register_launch(Session& session) {
  std::vector<LaunchSpec> specs{{.op = LaunchOp::kernel}};
  // The host backend has no kernels. One row is enough to report this.
  if (session.has_gpus()) specs.push_back({.op = LaunchOp::graph, .kernels = 20});
  add_with_second_turn(session, specs, figures, OneByOne{calls});
}

}  // namespace shakedown
