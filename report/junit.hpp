// A verdict as JUnit's XML, which every CI system shows.
#pragma once

#include <string>

#include "thresholds/history/regression.hpp"
#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// A suite for each family, a case for each finding, and one for the verdict itself, so that nothing passes that did
/// not. Waived is skipped; too noisy and without a reference are errors; warnings pass and say what they warn of.
std::string junit_xml(const Verdict&);

/// A case for each benchmark and one for the comparison: worse and missing are failures, inconclusive is an error, what
/// cannot be judged is skipped.
std::string junit_xml(const Regression&);

}  // namespace shakedown
