// What is measured a second time, because a rank stood off: it counts only what shows twice.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/statistics.hpp"
#include "fixtures/session.hpp"

namespace shakedown {

/// Longer than what the better ranks took:
inline bool stands_off(const std::map<std::string, std::vector<RankData>>& measured, const std::string& key) {
  const auto row = measured.find(key);
  if (row == measured.end()) return false;
  const auto column = row->second.back().by_rank.find("seconds");
  if (column == row->second.back().by_rank.end()) return false;
  std::vector<double> seconds;
  for (const auto& own : column->second) {
    if (own) seconds.push_back(*own);
  }
  constexpr double off = 1.4;  // less than what stands out (thresholds/metrics.cpp)
  return !seconds.empty() && *std::max_element(seconds.begin(), seconds.end()) > off * quantile(seconds, 0.25);
}

}  // namespace shakedown
