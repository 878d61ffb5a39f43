// One row for the verdict, for each finding and for each value that no rule judges, for spreadsheets and SQL.
#pragma once

#include <string>

#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns CSV as RFC 4180 describes it, but with line feeds, and with a row of names first. Unknown is empty.
std::string csv_text(const Verdict&);

}  // namespace shakedown
