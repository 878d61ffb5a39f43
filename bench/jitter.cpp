// OS jitter: all ranks do equal pieces of work at once, each on the cores to which it is bound. If a core also does
// other work, its rank launches work on the GPU late, and the throughput of the GPU alone does not show this.
//
//   mpirun -np 4 build/bench/bench_jitter
#include "kernels/ops/jitter.hpp"
#include "bench/retest.hpp"

namespace shakedown {

namespace {

constexpr int operations = 15;           // of about 10 ms each
constexpr double typical_seconds = 0.2;  // in total, if nothing disturbs them

Metrics figures(const Cost&, double seconds, int) { return {{"quantum_us", seconds / JitterSpec::quanta * 1e6}}; }

}  // namespace

void register_jitter(Session& session) {
  add_with_second_turn<JitterSpec>(session, {{}}, figures, OneByOne{operations}, typical_seconds);
}

}  // namespace shakedown
