// Workflow commands of GitHub Actions: a step that prints them annotates its run.
#pragma once

#include <string>

#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns "::error title=...::..." lines: the headline, then causes, failing findings and warnings. GitHub shows ten
/// errors and ten warnings of a step, so no more are written.
std::string github_annotations(const Verdict&);

}  // namespace shakedown
