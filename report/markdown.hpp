// A verdict and a comparison as Markdown, for the summary of a CI job ($GITHUB_STEP_SUMMARY and the like).
#pragma once

#include <string>

#include "thresholds/history/regression.hpp"
#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// The verdict line, the findings that are not good with their reasons, and all others folded away. Bounded: a cluster
/// of 10,000 GPUs still fits into the 1 MiB that GitHub takes.
std::string markdown_text(const Verdict&);

std::string markdown_text(const Regression&);

}  // namespace shakedown
