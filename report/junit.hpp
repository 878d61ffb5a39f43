// A verdict as JUnit XML, which all CI systems display.
#pragma once

#include <string>

#include "thresholds/history/regression.hpp"
#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns one suite for each family, one case for each finding, and one case for the verdict itself, so that a failed
/// verdict is always visible. Waived findings are skipped. INCONCLUSIVE and NO REFERENCE are errors. A warning is a
/// passed case with a text.
std::string junit_xml(const Verdict&);

/// Returns a case for each benchmark, and one for the whole comparison. Worse and missing benchmarks are failures,
/// inconclusive benchmarks are errors, and those that cannot be judged are skipped.
std::string junit_xml(const Regression&);

}  // namespace shakedown
