// shakedown demo: a verdict, its page and its commands without hardware.
#pragma once

#include "report/arguments.hpp"

namespace shakedown {

/// Makes results of a host that does not exist, with a fault, and judges them. Everything written names the demo, and
/// other verbs take it with --allow-faults only. Returns the exit code of the verdict. Errors: InputError.
int demo(const Arguments&);

}  // namespace shakedown
