// Measures disturbances of a rank's CPU, which starts kernels, messages and copies.
#pragma once

#include "base/counted_work.hpp"
#include "kernels/ops/operation.hpp"

namespace shakedown {

/// A series of equal quanta of work, timed one by one, in one thread on the core to which the rank is bound. The series
/// is the fixed work quantum of the literature (Sottile and Minnich, CLUSTER 2004). Time in excess of the work was
/// taken by something else on the core.
struct JitterSpec {
  static constexpr std::string_view description = "a row of quanta on the processor";
  static constexpr int quanta = 100;  // number of quanta in one operation

  int turn = 1;  // 2 in a retest after an outlier
};

/// Returns the key, such as jitter/op:fwq/quanta:100.
inline std::string key(const JitterSpec& s) {
  Key key("jitter");
  key.set("op", "fwq").set("quanta", JitterSpec::quanta);
  if (s.turn > 1) key.set("turn", s.turn);
  return key.text();
}
inline Cost cost(const JitterSpec&) { return {2.0 * steps_per_quantum * JitterSpec::quanta, 0}; }
inline std::size_t footprint(const JitterSpec&) { return 0; }

}  // namespace shakedown
