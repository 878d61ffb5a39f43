// Reads and writes the time stamps of results.
#pragma once

#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <optional>
#include <string>

namespace shakedown {

/// Returns the current time as "2026-11-22T12:00:00Z".
inline std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

/// Returns the seconds since 1970 for such a time stamp; nullopt if the text has another format.
inline std::optional<double> seconds_of(const std::string& time) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  if (std::sscanf(time.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d", &year, &month, &day, &hour, &minute, &second) != 6)
    return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return std::nullopt;
  return 86400.0 * static_cast<double>(std::chrono::sys_days(date).time_since_epoch().count()) + 3600.0 * hour +
         60.0 * minute + second;
}

}  // namespace shakedown
