// shakedown demo: shows a verdict, its page and its commands without hardware.
#pragma once

#include "report/arguments.hpp"

namespace shakedown {

/// Generates results of a simulated host with a fault, and judges them. All outputs say that they are a demo, and other
/// verbs accept its results only with --allow-faults. Returns the exit code of the verdict. Errors: InputError.
int demo(const Arguments&);

}  // namespace shakedown
