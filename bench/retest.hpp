// What measured rows say about further rows. Repeats a measurement in which one rank is an outlier. Only a rank that is
// an outlier in both turns fails. The second turn has a key of its own, so that it belongs to another class of rows.
// fixtures/program/suite.cpp repeats measurements that no other row can confirm.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/statistics.hpp"
#include "fixtures/plan/session.hpp"

namespace shakedown {

/// True if the slowest rank took more than `outlier_time_ratio` times as long as the lower quartile of all ranks.
inline bool stands_off(const std::map<std::string, std::vector<RankData>>& measured, const std::string& key) {
  const auto row = measured.find(key);
  if (row == measured.end()) return false;
  const auto column = row->second.back().by_rank.find("seconds");
  if (column == row->second.back().by_rank.end()) return false;
  std::vector<double> seconds;
  for (const auto& own : column->second) {
    if (own) seconds.push_back(*own);
  }
  constexpr double outlier_time_ratio = 1.4;  // lower than the limit for outliers (thresholds/catalogue/metrics.cpp)
  return !seconds.empty() &&
         *std::max_element(seconds.begin(), seconds.end()) > outlier_time_ratio * quantile(seconds, 0.25);
}

/// True if the row has neither values nor wrong data, because it was waived.
inline bool is_waived(const std::map<std::string, std::vector<RankData>>& measured, const std::string& key) {
  const auto row = measured.find(key);
  if (row == measured.end()) return false;
  const RankData& last = row->second.back();
  return last.by_rank.empty() && last.wrong_ranks.empty();
}

/// Adds the measurements. If one has an outlier, it is repeated later as `turn` 2.
template <class Spec>
void add_with_second_turn(Session& session, const std::vector<Spec>& specs, const Figures& figures, OneByOne one_by_one,
                          double min_seconds = 0) {
  const auto add = [=](Session& to, const Spec& spec) {
    auto measurement = measurement_of(spec, figures);
    measurement.one_by_one = one_by_one;
    measurement.min_seconds = min_seconds;
    to.add(std::move(measurement));
  };
  for (const Spec& spec : specs) add(session, spec);
  session.then([=](Session& s, const auto& measured) {
    for (auto spec : specs) {
      if (!stands_off(measured, key(spec))) continue;
      spec.turn = 2;
      add(s, spec);
    }
  });
}

}  // namespace shakedown
