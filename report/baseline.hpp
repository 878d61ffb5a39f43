// The verb `shakedown baseline`.
#pragma once

#include <string>

#include "report/arguments.hpp"

namespace shakedown {

/// Runs an action: create (--results to --out), merge (--baseline,... to --out) or show (--baseline). With --floors,
/// each also proposes limits. Prints what it stored and returns the exit code. Errors: InputError.
int baseline(const std::string& action, const Arguments&);

}  // namespace shakedown
