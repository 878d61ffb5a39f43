// A verdict as text: the table, the reasons, and the verdict line last. Colour is off by default.
#pragma once

#include <string>
#include <vector>

#include "base/text.hpp"
#include "thresholds/history/regression.hpp"
#include "thresholds/judge/verdict.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown {

/// The number of lines of a list that is shown without --all.
inline constexpr std::size_t max_lines_shown = 20;

struct TerminalStyle {
  bool color = false;
  std::size_t width = 120;  // columns of tables; 120 fit into a terminal and a CI log without a line break
  bool all = false;         // shows every finding, every part of the fleet, and results without a rule
  Table::Style table() const { return {color, width}; }
};

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
