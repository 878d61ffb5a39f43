// How long the host needs for the call that starts a kernel, and a graph of kernels, one by one. A processor that is
// slow, far from its GPU or disturbed shows here, and in training as a GPU that waits.
//
//   mpirun -np 4 build/bench/bench_launch
#include "bench/again.hpp"

namespace shakedown {

namespace {

constexpr int calls = 400;

void add(Session& session, const LaunchSpec& spec) {
  session.add(Measurement{key(spec), cost(spec), footprint(spec),
                          [spec](Device& device) { return device.prepare(spec); },
                          [](const Cost&, double seconds, int) -> Metrics {
                            return {{"launch_us", seconds * 1e6}};
                          },
                          0, OneByOne{calls}});
}

}  // namespace

void register_launch(Session& session) {
  const LaunchSpec kernel{.op = LaunchOp::kernel}, graph{.op = LaunchOp::graph, .kernels = 20};
  add(session, kernel);
  // The host backend has no kernels, and says so in one row.
  if (session.backend() == Backend::host) return;
  add(session, graph);
  session.then([=](Session& s, const auto& measured) {
    for (auto spec : {kernel, graph}) {
      if (!stands_off(measured, key(spec))) continue;
      spec.turn = 2;
      add(s, spec);
    }
  });
}

}  // namespace shakedown
