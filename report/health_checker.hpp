// The verdict for node health checkers: PASS, FAIL, or ERROR if nothing was proven. An ERROR drains no node.
#pragma once

#include <string>

#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns one line: {"status": "PASS|FAIL|ERROR", "tests": [{"name": family, "checks": [{"name", "state": {"status",
/// "error"}}]}]}. A warning is a PASS with a text. HOST-ONLY is an ERROR because no GPU was tested.
std::string health_checker_json(const Verdict&);

}  // namespace shakedown
