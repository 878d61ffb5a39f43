// accept --again: the families to repeat after a remedy, and the findings before and after.
#pragma once

#include <string>
#include <vector>

#include "report/terminal.hpp"
#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns the families to measure again: pre-flight, those of what failed, and those that their comparison needs, each
/// on all ranks, since the peers are compared with each other. Empty: all, because what failed is of no single family.
/// Errors: InputError if nothing failed.
std::vector<std::string> families_again(const Verdict&);

/// Returns a table of what failed in `run`, before and after, and a line that counts it.
std::string again_text(const std::string& run, const Verdict& before, const Verdict& after, TerminalStyle);

}  // namespace shakedown
