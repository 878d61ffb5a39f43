// A profile of some operations, divided into classes of parts: what Work::profile returns.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "base/part_class.hpp"

namespace shakedown {

/// One part on the compute stream of this rank. Parts follow each other and do not overlap.
struct ProfiledPart {
  std::string name;  // of the operation, a product with its rows, columns and terms
  PartClass part_class = PartClass::gemm;
  double begin_ms = 0, ms = 0;  // the begin is relative to that of the operation
};

struct ProfiledStep {
  double begin_ms = 0, ms = 0;  // the begin is relative to that of the first profiled step
  std::vector<ProfiledPart> parts;
};

/// The profiled steps of one rank, in their order.
struct StepProfile {
  ProfileSource source = ProfileSource::events;
  std::vector<ProfiledStep> steps;
};

/// The mean milliseconds of a step by class, and in no part: the time between parts.
struct TimeByClass {
  std::array<double, words(PartClass{}).size()> milliseconds{};
  double fixed_ms = 0, whole_ms = 0;
};

/// Returns the means over the steps; their sum is `whole_ms`. All are 0 without steps.
TimeByClass time_by_class(const StepProfile&);

}  // namespace shakedown
