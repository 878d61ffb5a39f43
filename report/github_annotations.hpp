// Workflow commands of GitHub Actions: GitHub annotates the run of a step that prints them.
#pragma once

#include <string>

#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns "::error title=...::..." lines: the headline, then causes, failing findings and warnings. Writes at most ten
/// errors and ten warnings, because GitHub shows no more for a step.
std::string github_annotations(const Verdict&);

}  // namespace shakedown
