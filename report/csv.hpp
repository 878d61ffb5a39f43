// A CSV row for the verdict, for each finding and for each value without a rule, for spreadsheets and SQL.
#pragma once

#include <string>
#include <vector>

#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns one line of CSV.
std::string csv_row(const std::vector<std::string>& cells);

/// Returns CSV as RFC 4180 describes it, but with line feeds, and with a row of names first. Unknown is empty.
std::string csv_text(const Verdict&);

}  // namespace shakedown
