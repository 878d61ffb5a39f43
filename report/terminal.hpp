// A verdict as text: the table, the reasons, and the verdict line last. Colour is off by default.
#pragma once

#include <string>
#include <vector>

#include "report/terminal_style.hpp"
#include "thresholds/history/regression.hpp"
#include "thresholds/judge/verdict.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown {

/// Returns the complete text. The first line is the headline, which is repeated before the last line unless the verdict
/// is good. The last line is the verdict line. Without `all`, shows only bad findings, and only a few of each part of
/// the fleet.
std::string terminal_text(const Verdict&, TerminalStyle = {});

/// Returns the copies between GPUs as matrices (thresholds/results/matrix.hpp).
std::string matrices_text(const std::vector<Results>&);

/// Returns a finding in full: value, limit, detail, offenders, rule, source, next command. The text has several lines
/// and no newline at the end.
std::string finding_text(const Finding&);

/// Returns a table of changes and a last line, such as "REGRESSION: 2 worse, 0 missing, 1 inconclusive, 58 compared
/// (minimal effect 1 %)".
std::string terminal_text(const Regression&, TerminalStyle = {});

/// Returns the machine, the centre and spread of each benchmark, the benchmarks that were skipped, and a last line
/// "BASELINE: ...".
std::string terminal_text(const Baseline&, TerminalStyle = {});

}  // namespace shakedown
