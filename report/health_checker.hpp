// The verdict for node health checkers: PASS, FAIL, or ERROR if nothing was proven. Checkers do not drain a node for an
// ERROR.
#pragma once

#include <string>

#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns one line: {"status": "PASS|FAIL|ERROR", "tests": [{"name": family, "checks": [{"name", "state": {"status",
/// "error"}}]}]}. A warning becomes a PASS with a text. HOST-ONLY becomes an ERROR because no GPU was tested.
std::string health_checker_json(const Verdict&);

}  // namespace shakedown
