// The time of profiled training steps by class.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/key.hpp"
#include "base/part_class.hpp"
#include "thresholds/results/measured.hpp"

namespace shakedown {

/// The mean times of a profiled step on the rank that waits the least for others, in milliseconds. The classes and
/// `fixed_ms` add up to `whole_ms`.
struct StepTimes {
  Key key;
  int rank = 0;
  std::array<double, words(PartClass{}).size()> class_ms{};  // by PartClass
  double fixed_ms = 0, whole_ms = 0;
  double cost_percent = 0;  // the time that the profile added to a step
  std::string source = {};  // a word of ProfileSource; empty in older files

  bool operator==(const StepTimes&) const = default;
};

/// Returns the times of all profiled rows, by key; empty for a run without --profile.
std::vector<StepTimes> step_times_of(const Benchmarks&);

}  // namespace shakedown
