// shakedown compare A B: two runs side by side.
#pragma once

#include "report/arguments.hpp"

namespace shakedown {

/// Prints each figure of two runs, or archives of runs, with difference and spread. It judges neither; returns 0.
/// Errors: InputError.
int compare(const Arguments&);

}  // namespace shakedown
