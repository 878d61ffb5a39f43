// A CSV row for the verdict, for each finding and for each value without a rule, for spreadsheets and SQL.
#pragma once

#include <string>

#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns CSV by RFC 4180, but with line feeds, and with a header row. Unknown values are empty.
std::string csv_text(const Verdict&);

}  // namespace shakedown
