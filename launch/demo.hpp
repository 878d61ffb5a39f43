// shakedown demo: a verdict, its page and its commands without hardware.
#pragma once

#include "report/arguments.hpp"

namespace shakedown {

/// Generates results of a simulated host with a fault, and judges them. All outputs name the demo, and other verbs
/// accept them only with --allow-faults. Returns the exit code of the verdict. Errors: InputError.
int demo(const Arguments&);

}  // namespace shakedown
