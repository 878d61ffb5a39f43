// The verdict as node health checkers read it: PASS, FAIL, or ERROR where nothing was proven, which drains nobody.
#pragma once

#include <string>

#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// One line: {"status": "PASS|FAIL|ERROR", "tests": [{"name": family, "checks": [{"name", "state": {"status",
/// "error"}}]}]}. What only warns is a PASS with a text. HOST-ONLY is an ERROR: no GPU was proven.
std::string health_checker_json(const Verdict&);

}  // namespace shakedown
