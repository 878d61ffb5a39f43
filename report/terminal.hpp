// A verdict as text: the table, the reasons, and last the verdict line. Colour only when asked for.
#pragma once

#include <string>
#include <vector>

#include "base/text.hpp"
#include "thresholds/history/regression.hpp"
#include "thresholds/judge/verdict.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown {

struct TerminalStyle {
  bool color = false;
  std::size_t width = 120;  // of tables: what a terminal and a CI log show unbroken
  bool all = false;         // list what no rule judged, too
  Table::Style table() const { return {color, width}; }
};

/// Everything up to and with the verdict line, which ends the text.
std::string terminal_text(const Verdict&, TerminalStyle = {});

/// The copies between GPUs as matrices (thresholds/results/matrix.hpp): of up to two hosts, of more those that are
/// named as culprits, and of all where the style says so; a line then says what was left out.
std::string matrices_text(const std::vector<Results>&, const Verdict&, TerminalStyle = {});

/// A finding in full: value, limit, detail, offenders, rule, source, next command. Several lines, no newline at the
/// end.
std::string finding_text(const Finding&);

/// A table of changes and a last line "REGRESSION: 2 worse, 0 missing, 1 inconclusive, 58 compared (minimal effect 1
/// %)".
std::string terminal_text(const Regression&, TerminalStyle = {});

/// The machine, centre and spread of each benchmark, what was left out, and a last line "BASELINE: ...".
std::string terminal_text(const Baseline&, TerminalStyle = {});

}  // namespace shakedown
