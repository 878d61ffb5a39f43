// What disturbs the processors: equal quanta of work on every rank, all at once, where the rank is bound. A rank whose
// core works for somebody else feeds its GPU late, and the rates of GPUs do not show it.
//
//   mpirun -np 4 build/bench/bench_jitter
#include "bench/again.hpp"

namespace shakedown {

namespace {

constexpr int operations = 15;          // of some 10 ms
constexpr double about_seconds = 0.2;  // of all, where nothing disturbs

void add(Session& session, const JitterSpec& spec) {
  session.add(Measurement{key(spec), cost(spec), footprint(spec),
                          [spec](Device& device) { return device.prepare(spec); },
                          [](const Cost&, double seconds, int) -> Metrics {
                            return {{"quantum_us", seconds / JitterSpec::quanta * 1e6}};
                          },
                          about_seconds, OneByOne{operations}});
}

}  // namespace

void register_jitter(Session& session) {
  add(session, {});
  session.then([](Session& s, const auto& measured) {
    if (stands_off(measured, key(JitterSpec{}))) add(s, {.turn = 2});
  });
}

}  // namespace shakedown
