// What disturbs the processor of a rank: the one that starts kernels, messages and copies.
#pragma once

#include <cstdint>

#include "kernels/ops/operation.hpp"

namespace shakedown {

/// A row of equal quanta of work by one thread, where the rank is bound, each timed: the fixed work quantum of the
/// literature (Sottile and Minnich, CLUSTER 2004). What is not the work took the core from it.
struct JitterSpec {
  static constexpr std::string_view description = "a row of quanta on the processor";
  /// Of a quantum: a multiplication and an addition, each waiting for the one before, 4 cycles on any core of today. So
  /// 0.1 ms, much shorter than a turn of another thread, so that a turn shows in a few quanta of many.
  static constexpr std::uint64_t steps = 65536;
  static constexpr int quanta = 100;  // of one operation

  int turn = 1;  // 2: measured again, where a rank stood off
};

/// jitter/op:fwq/quanta:100
inline std::string key(const JitterSpec& s) {
  Key key("jitter");
  key.set("op", "fwq").set("quanta", JitterSpec::quanta);
  if (s.turn > 1) key.set("turn", s.turn);
  return key.text();
}
inline Cost cost(const JitterSpec&) { return {2.0 * JitterSpec::steps * JitterSpec::quanta, 0}; }
inline std::size_t footprint(const JitterSpec&) { return 0; }

}  // namespace shakedown
