// CSV for spreadsheets and SQL: a row for the verdict, for each finding, and for each value without a rule.
#pragma once

#include <string>
#include <vector>

#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns one line of CSV.
std::string csv_row(const std::vector<std::string>& cells);

/// Returns CSV by RFC 4180, except that lines end with a line feed. The first row has the names of the columns. A cell
/// is empty if its value is unknown.
std::string csv_text(const Verdict&);

}  // namespace shakedown
