// Decides which benchmarks belong to one matrix and how it is printed. Tested by tests/matrix_test.cpp
// (build/tests/matrix_test).
#include "thresholds/matrix.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <utility>

#include "thresholds/thresholds.hpp"
#include "thresholds/wording.hpp"

namespace shakedown {
namespace {

struct Pair {
  int src = -1, dst = -1;
  std::string rest;  // the key without them
};

std::optional<int> number_after(std::string_view segment, std::string_view name) {
  if (segment.substr(0, name.size()) != name) return std::nullopt;
  int value = 0;
  const auto digits = segment.substr(name.size());
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::optional<Pair> pair_of(std::string_view key) {
  Pair pair;
  while (!key.empty()) {
    const auto segment = key.substr(0, key.find('/'));
    key.remove_prefix(std::min(key.size(), segment.size() + 1));
    if (const auto src = number_after(segment, "src:")) {
      pair.src = *src;
    } else if (const auto dst = number_after(segment, "dst:")) {
      pair.dst = *dst;
    } else {
      pair.rest += (pair.rest.empty() ? "" : "/") + std::string(segment);
    }
  }
  if (pair.src < 0 || pair.dst < 0) return std::nullopt;
  return pair;
}

std::string metric_of(const Row& row) { return row.by_rank.count("latency_us") > 0 ? "latency_us" : "copy_gbps"; }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::string cell_text(double value, const std::string& metric) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), metric == "latency_us" ? "%.3f" : "%.1f", value);
  return text.data();
}

}  // namespace

std::optional<PairMatrix::Cell> PairMatrix::worst() const {
  const bool lower_is_worse = metric != "latency_us";
  std::optional<Cell> found;
  for (std::size_t src = 0; src < values.size(); ++src) {
    for (std::size_t dst = 0; dst < values[src].size(); ++dst) {
      const auto& value = values[src][dst];
      if (!value || (found && (lower_is_worse ? *value >= found->value : *value <= found->value))) continue;
      found = Cell{static_cast<int>(src), static_cast<int>(dst), *value};
    }
  }
  return found;
}

std::vector<PairMatrix> pair_matrices(const Context& context, const std::vector<Row>& rows) {
  using Place = std::pair<std::size_t, std::size_t>;
  std::vector<PairMatrix> matrices;
  std::vector<std::map<Place, std::vector<double>>> repetitions;        // of each matrix
  std::map<std::pair<std::string, std::string>, std::size_t> index_of;  // by key and host
  int locals = 0;  // on the largest host: a key may name any number, and is not given memory for it
  for (const RankFacts& rank : context.ranks) locals = std::max(locals, rank.local_rank + 1);
  for (const Row& row : rows) {
    const auto pair = pair_of(row.key);
    if (!pair || pair->src >= locals || row.error || row.waived) continue;
    const auto metric = metric_of(row);
    const auto values = row.by_rank.find(metric);
    if (values == row.by_rank.end()) continue;
    for (const RankFacts& rank : context.ranks) {
      const auto& value = values->second.at(static_cast<std::size_t>(rank.rank));
      if (rank.local_rank != pair->dst || !value) continue;
      const auto [entry, fresh] = index_of.emplace(std::pair(pair->rest, rank.host), matrices.size());
      if (fresh) {
        matrices.push_back({pair->rest, metric, rank.host, {}});
        repetitions.emplace_back();
      }
      const Place place{static_cast<std::size_t>(pair->src), static_cast<std::size_t>(pair->dst)};
      repetitions[entry->second][place].push_back(*value);
    }
  }
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    std::size_t size = 0;
    for (const auto& [place, values] : repetitions[i]) size = std::max({size, place.first + 1, place.second + 1});
    matrices[i].values.assign(size, std::vector<std::optional<double>>(size));
    for (const auto& [place, values] : repetitions[i]) matrices[i].values[place.first][place.second] = median(values);
  }
  return matrices;
}

std::vector<PairMatrix> pair_matrices(const Context& context,
                                      const std::map<std::string, std::vector<ByRank>>& by_rank) {
  std::vector<Row> rows;
  for (const auto& [key, repetitions] : by_rank) {
    if (!pair_of(key)) continue;
    for (const ByRank& values : repetitions) {
      rows.emplace_back();
      rows.back().key = key;
      rows.back().by_rank = values;
    }
  }
  return pair_matrices(context, rows);
}

std::string text(const PairMatrix& matrix) {
  const auto worst = matrix.worst();
  const auto n = matrix.values.size();
  std::vector<std::vector<std::string>> cells(n + 1, std::vector<std::string>(n + 1));
  cells[0][0] = "src\\dst";
  for (std::size_t i = 0; i < n; ++i) {
    cells[0][i + 1] = std::to_string(i) + " ";
    cells[i + 1][0] = std::to_string(i);
    for (std::size_t j = 0; j < n; ++j) {
      const auto& value = matrix.values[i][j];
      const bool is_worst = worst && worst->src == static_cast<int>(i) && worst->dst == static_cast<int>(j);
      cells[i + 1][j + 1] = (value ? cell_text(*value, matrix.metric) : "-") + (is_worst ? "*" : " ");
    }
  }
  std::size_t width = 0;
  for (std::size_t i = 0; i <= n; ++i) {
    for (std::size_t j = 1; j <= n; ++j) width = std::max(width, cells[i][j].size());
  }
  const auto unit = unit_of(matrix.metric);
  std::string out =
      one_line(matrix.key + " on " + matrix.host) + ", " + unit + ", source by row, destination by column\n";
  for (const auto& row : cells) {
    std::string line = "  " + row.front() + std::string(cells[0][0].size() - row.front().size(), ' ');
    for (std::size_t j = 1; j <= n; ++j) line += std::string(width - row[j].size() + 1, ' ') + row[j];
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  if (worst) {
    out += "  * worst: " + std::to_string(worst->src) + " to " + std::to_string(worst->dst) + ", " +
           cell_text(worst->value, matrix.metric) + " " + unit + "\n";
  }
  return out;
}

}  // namespace shakedown
