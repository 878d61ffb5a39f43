#include "thresholds/rehearsal/repeats.hpp"

#include <algorithm>
#include <map>

#include "base/key.hpp"
#include "base/statistics.hpp"

namespace shakedown::rehearsal {

namespace {

using Column = std::vector<std::optional<double>>;

/// bench/p2p.cpp: below this part of the upper quartile a copy is low. bench/retest.hpp: above this, of the lower one.
constexpr double low_copy = 0.97, long_time = 1.4;
/// GEMM and HBM: of a GPU in one row, below what it has in the others of its kind.
constexpr double below_its_others = 0.10;

std::vector<double> known(const Column& column) {
  std::vector<double> values;
  for (const auto& value : column) {
    if (value) values.push_back(*value);
  }
  return values;
}

struct Doubt {
  const char* metric;
  double part;
};

/// By how much a single value is low (docs/measuring.md).
std::vector<Doubt> doubts_of(const Planned& row) {
  switch (row.form) {
    case Form::products: return {{"tflops_per_ghz", 0.024}, {"tflops", 0.11}};
    case Form::streams:
    case Form::memory_test: return {{"hbm_gb_per_s", 0.03}};
    case Form::peer_loads: return {{"latency_us", 0.10}};
    case Form::pcie: return {{"copy_gb_per_s", row.alone ? 0.05 : 0.10}};
    default: return {};
  }
}

/// Rows that can confirm each other: products of a type, streams of a direction.
std::string group_of(const Planned& row) {
  return row.form == Form::products ? std::string(key_part(row.key, "dtype"))
                                    : "hbm " + std::string(key_part(row.key, "op"));
}

/// Each rank's value over the median of the ranks; of a time the other way round.
std::vector<std::optional<double>> relative(const Column& column, bool is_time) {
  Column result(column.size());
  const auto values = known(column);
  if (values.size() < 2) return result;
  const double middle = median(values);
  for (std::size_t i = 0; i < column.size(); ++i) {
    if (column[i]) result[i] = is_time ? middle / *column[i] : *column[i] / middle;
  }
  return result;
}

bool has_value_below(const Column& column, double least) {
  return std::any_of(column.begin(), column.end(), [&](const auto& value) { return value && *value < least; });
}

}  // namespace

std::vector<Planned> closer_look(const Shape& shape, const std::vector<Planned>& planned,
                                 const std::vector<Row>& rows) {
  std::vector<Planned> more;
  std::map<bool, std::map<std::pair<int, int>, double>> copies;  // of reads and writes, the lowest of all hosts
  std::map<bool, std::vector<double>> all;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    const Planned& row = planned[i];
    if (row.form == Form::quanta || row.form == Form::launches) {
      const auto seconds = known(rows[i].by_rank.at("seconds"));
      if (*std::max_element(seconds.begin(), seconds.end()) <= long_time * quantile(seconds, 0.25)) continue;
      more.push_back(row);
      more.back().key += "/turn:2";
    }
    if (row.form != Form::copies || !row.shift || key_part(row.key, "engine") != "ce") continue;
    const bool read = key_part(row.key, "op") == "read";
    const Column& values = rows[i].by_rank.at("copy_gb_per_s");
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      const int to = static_cast<int>(rank) % shape.gpus, from = (to - *row.shift + shape.gpus) % shape.gpus;
      const auto entry = copies[read].emplace(std::pair(from, to), *values[rank]).first;
      entry->second = std::min(entry->second, *values[rank]);
      all[read].push_back(*values[rank]);
    }
  }
  for (const bool read : {true, false}) {
    if (all[read].empty()) continue;
    const double low = low_copy * quantile(all[read], 0.75);
    for (const auto& [pair, value] : copies[read]) {
      if (value < low) more.push_back(copy_alone(read, pair.first, pair.second));
    }
  }
  return more;
}

std::vector<std::size_t> rows_in_doubt(const std::vector<Planned>& planned, const std::vector<Row>& rows) {
  std::map<std::string, std::vector<std::size_t>> groups;
  std::map<std::size_t, Column> behind;
  std::vector<bool> doubtful(planned.size(), false);
  for (std::size_t i = 0; i < planned.size(); ++i) {
    for (const Doubt& doubt : doubts_of(planned[i])) {
      const bool is_time = planned[i].form == Form::peer_loads;
      Column values = relative(rows[i].by_rank.at(doubt.metric), is_time);
      const auto low = has_value_below(values, is_time ? 1 / (1 + doubt.part) : 1 - doubt.part);
      if (planned[i].form == Form::products || planned[i].form == Form::streams) {
        if (std::string_view(doubt.metric) != "tflops") {
          groups[group_of(planned[i])].push_back(i);
          behind[i] = values;
        }
      }
      doubtful[i] = doubtful[i] || low;
    }
  }
  for (const auto& [name, members] : groups) {
    if (members.size() < 2) continue;
    for (const std::size_t i : members) {
      bool apart = false;
      for (std::size_t rank = 0; rank < behind[i].size(); ++rank) {
        std::vector<double> others;
        for (const std::size_t j : members) {
          if (j != i && behind[j][rank]) others.push_back(*behind[j][rank]);
        }
        if (!behind[i][rank] || others.empty()) continue;
        apart = apart || *behind[i][rank] < median(others) - below_its_others;
      }
      // Other rows of its kind can confirm what is low: only a row by itself is measured again.
      doubtful[i] = apart;
    }
  }
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    if (doubtful[i]) indices.push_back(i);
  }
  return indices;
}

}  // namespace shakedown::rehearsal
