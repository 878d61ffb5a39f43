// accept --again: the families to repeat after a remedy, and the findings before and after.
#pragma once

#include <string>
#include <vector>

#include "report/terminal.hpp"
#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns the families to measure again: pre-flight, the failed families, and those that they are compared with, all
/// on all ranks. Empty: all families, because the failure belongs to no single one. Errors: InputError if nothing
/// failed.
std::vector<std::string> families_again(const Verdict&);

/// Returns a table of the failed findings of `run`, before and after, and a summary line.
std::string again_text(const std::string& run, const Verdict& before, const Verdict& after, TerminalStyle);

}  // namespace shakedown
