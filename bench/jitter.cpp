// What disturbs the processors: equal quanta of work on every rank, all at once, where the rank is bound. A rank whose
// core works for somebody else feeds its GPU late, and the rates of GPUs do not show it.
//
//   mpirun -np 4 build/bench/bench_jitter
#include "bench/retest.hpp"
#include "kernels/ops/jitter.hpp"

namespace shakedown {

namespace {

constexpr int operations = 15;         // of some 10 ms
constexpr double about_seconds = 0.2;  // of all, where nothing disturbs

Metrics figures(const Cost&, double seconds, int) { return {{"quantum_us", seconds / JitterSpec::quanta * 1e6}}; }

}  // namespace

void register_jitter(Session& session) {
  add_with_second_turn<JitterSpec>(session, {{}}, figures, OneByOne{operations}, about_seconds);
}

}  // namespace shakedown
