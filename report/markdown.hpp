// A verdict or a comparison as Markdown, for the summary of a CI job (such as $GITHUB_STEP_SUMMARY).
#pragma once

#include <string>

#include "thresholds/history/regression.hpp"
#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns the verdict line, the bad findings with their reasons, and all other findings in a folded section. The
/// length is limited: the summary of 10,000 GPUs fits into GitHub's limit of 1 MiB.
std::string markdown_text(const Verdict&);

/// Returns the last line of the comparison, and tables of the changes. Rows without a change are in a folded section.
std::string markdown_text(const Regression&);

}  // namespace shakedown
