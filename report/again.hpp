// accept --again: which families to repeat after a repair, and a comparison of the findings before and after it.
#pragma once

#include <string>
#include <vector>

#include "report/terminal.hpp"
#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns the families to measure again on all ranks: pre-flight, the failed families, and the families that these are
/// compared with. Returns an empty list, which means all families, if the failure belongs to no single family. Errors:
/// InputError if nothing failed.
std::vector<std::string> families_again(const Verdict&);

/// Returns a table of the failed findings of `run`, before and after, and a summary line.
std::string again_text(const std::string& run, const Verdict& before, const Verdict& after, TerminalStyle);

}  // namespace shakedown
