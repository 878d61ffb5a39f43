// The verb `shakedown baseline`.
#pragma once

#include <string>

#include "report/arguments.hpp"

namespace shakedown {

/// create: --results to --out; merge: --baseline,... to --out; show: --baseline. Each also proposes --floors. Prints
/// what was stored. Returns the exit code. Errors: InputError.
int baseline(const std::string& action, const Arguments&);

}  // namespace shakedown
