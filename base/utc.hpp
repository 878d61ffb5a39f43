// The time of day as results write it.
#pragma once

#include <array>
#include <ctime>
#include <string>

namespace shakedown {

/// "2026-11-22T12:00:00Z"
inline std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

}  // namespace shakedown
