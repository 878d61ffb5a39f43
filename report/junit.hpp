// A verdict as JUnit XML, which every CI system displays.
#pragma once

#include <string>

#include "thresholds/history/regression.hpp"
#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns one suite for each family, one case for each finding, and one case for the verdict itself, so that a failed
/// verdict always shows. Waived findings are skipped. INCONCLUSIVE and NO REFERENCE are errors. A warning passes, with
/// its text.
std::string junit_xml(const Verdict&);

/// Returns a case for each benchmark and one for the comparison: worse and missing are failures, inconclusive is an
/// error, benchmarks that cannot be judged are skipped.
std::string junit_xml(const Regression&);

}  // namespace shakedown
