// shakedown compare A B: shows two runs side by side.
#pragma once

#include "report/arguments.hpp"

namespace shakedown {

/// Prints each figure of two runs or archives, with the difference and the spread. The function judges neither run and
/// returns 0. Errors: InputError.
int compare(const Arguments&);

}  // namespace shakedown
