#include "thresholds/rehearsal/repeats.hpp"

#include <algorithm>
#include <map>

#include "base/key.hpp"
#include "base/statistics.hpp"

namespace shakedown::rehearsal {

namespace {

using Column = RankValues;

/// In bench/p2p.cpp, a copy below this fraction of the upper quartile is slow. In bench/retest.hpp, a time above this
/// multiple of the lower quartile is long.
constexpr double low_copy_share = 0.98, long_time_ratio = 1.4;

std::vector<double> known(const Column& column) {
  std::vector<double> values;
  for (const auto& value : column) {
    if (value) values.push_back(*value);
  }
  return values;
}

}  // namespace

std::vector<Planned> closer_look(const Shape& shape, const std::vector<Planned>& planned,
                                 const std::vector<Row>& rows) {
  std::vector<Planned> more;
  using Way = std::pair<bool, bool>;                            // whether the copy is a read, and whether kernels do it
  std::map<Way, std::map<std::pair<int, int>, double>> copies;  // the lowest value of all hosts
  std::map<Way, std::vector<double>> all;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    const Planned& row = planned[i];
    if (row.form == Form::quanta || row.form == Form::launches) {
      const auto seconds = known(rows[i].by_rank.at("seconds"));
      if (*std::max_element(seconds.begin(), seconds.end()) <= long_time_ratio * quantile(seconds, 0.25)) continue;
      more.push_back(row);
      more.back().key += "/turn:2";
    }
    if (row.form != Form::copies || !row.shift) continue;
    const Way way{key_part(row.key, "op") == "read", key_part(row.key, "engine") == "sm"};
    const Column& values = rows[i].by_rank.at("copy_gb_per_s");
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      const int to = static_cast<int>(rank) % shape.gpus, from = (to - *row.shift + shape.gpus) % shape.gpus;
      const auto entry = copies[way].emplace(std::pair(from, to), *values[rank]).first;
      entry->second = std::min(entry->second, *values[rank]);
      all[way].push_back(*values[rank]);
    }
  }
  for (const auto& [way, values] : all) {
    const double low = low_copy_share * quantile(values, 0.75);
    for (const auto& [pair, value] : copies[way]) {
      if (value < low) more.push_back(copy_alone(way.first, way.second, pair.first, pair.second));
    }
  }
  return more;
}

std::vector<std::size_t> repeated_rows(const std::vector<Planned>& planned, const std::vector<Row>& rows,
                                       const std::vector<Doubt>& missed) {
  std::map<std::string, std::vector<RankData>> measured;
  std::map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    measured[planned[i].key].push_back(rows[i]);
    index.emplace(planned[i].key, i);
  }
  std::vector<std::size_t> indices;
  auto doubts = rows_in_doubt(measured, 0);
  doubts.insert(doubts.end(), missed.begin(), missed.end());
  for (const Doubt& doubt : worst_first(doubts)) indices.push_back(index.at(doubt.key));
  return indices;
}

}  // namespace shakedown::rehearsal
