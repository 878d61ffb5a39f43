// The verb `shakedown baseline`.
#pragma once

#include <string>

#include "report/arguments.hpp"

namespace shakedown {

/// Runs one action: create (--results to --out), merge (--baseline,... to --out) or show (--baseline). With --floors,
/// each action also proposes limits. Prints what it stored and returns the exit code. Errors: InputError.
int baseline(const std::string& action, const Arguments&);

}  // namespace shakedown
