// Ranges for profilers: NVTX passes them to one that has injected itself into the process; without one a call is a test
// of a pointer.
#pragma once

#include <string>

#include "base/part_class.hpp"

namespace shakedown::cuda {

/// Begins a range of this name on the calling thread. Its category is the class.
void begin_range(const std::string& name, PartClass);
void end_range();

}  // namespace shakedown::cuda
