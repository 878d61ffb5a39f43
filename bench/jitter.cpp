// OS jitter: equal quanta of work on every rank at once, on the cores that the rank is bound to. A rank whose core also
// serves other work feeds its GPU late, and GPU throughput does not show that.
//
//   mpirun -np 4 build/bench/bench_jitter
#include "bench/retest.hpp"
#include "kernels/ops/jitter.hpp"

namespace shakedown {

namespace {

constexpr int operations = 15;         // of about 10 ms each
constexpr double about_seconds = 0.2;  // in total, without disturbances

Metrics figures(const Cost&, double seconds, int) { return {{"quantum_us", seconds / JitterSpec::quanta * 1e6}}; }

}  // namespace

void register_jitter(Session& session) {
  add_with_second_turn<JitterSpec>(session, {{}}, figures, OneByOne{operations}, about_seconds);
}

}  // namespace shakedown
