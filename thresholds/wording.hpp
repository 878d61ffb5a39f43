// Words and numbers as the findings write them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace shakedown {

std::string formatted(const char* format, double);  // one number, as printf writes it
std::string percent_text(double share);             // 0.123: "12.3 %"
std::string rounded(double);                        // 1464.6: "1465"

/// "a, b and c"
std::string listed(const std::vector<std::string>& words, const char* last = " and ");

/// Text of unknown origin (host names) in one line: newlines become spaces, other control characters '?'.
std::string one_line(std::string text);

std::string plural(std::size_t n, const std::string& noun);  // "1 rank", "2 ranks"

}  // namespace shakedown
