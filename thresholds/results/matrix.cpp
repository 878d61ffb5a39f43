// Groups benchmarks into matrices, and prints them.
#include "thresholds/results/matrix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/results/hosts.hpp"

namespace shakedown {
namespace {

/// Returns the key of the matrix to which a row belongs: the row's key without its pair, or for any shift. nullopt if
/// the row is not about pairs.
std::optional<Key> matrix_key(const Key& key) {
  if (key.number("shift")) return key.with("shift", "*");
  if (!key.number("src") || !key.number("dst")) return std::nullopt;
  Key rest(key.family());
  for (const auto& [name, value] : key.parts()) {
    if (name != "src" && name != "dst") rest.set(name, value);
  }
  return rest;
}

std::string metric_of(const Row& row) { return row.by_rank.count("latency_us") > 0 ? "latency_us" : "copy_gb_per_s"; }

std::string cell_text(double value, const std::string& metric) {
  return fmt::format("{:.{}f}", value, lower_is_better(metric) ? 3 : 1);
}

}  // namespace

std::optional<PairMatrix::Cell> PairMatrix::worst() const {
  const bool lower_is_worse = !lower_is_better(metric);
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
  std::vector<std::map<Place, std::vector<double>>> repetitions;  // by matrix: values of each cell, by repetition
  std::map<std::pair<Key, std::string>, std::size_t> index_of;    // by key and host: the index of the matrix
  const Hosts hosts(context);
  for (const Row& row : rows) {
    const auto key = matrix_key(row.key);
    if (!key || row.error || row.waived) continue;
    const auto metric = metric_of(row);
    const auto values = row.by_rank.find(metric);
    if (values == row.by_rank.end()) continue;
    const auto sources = hosts.sources(row.key);
    const auto dst = row.key.number("dst");
    for (const RankFacts& rank : context.ranks) {
      const auto& value = values->second.at(static_cast<std::size_t>(rank.rank));
      const auto from = sources.of(rank);
      if (!value || !from || *from == rank.rank || (dst && *dst != rank.local_rank)) continue;
      const auto [entry, fresh] = index_of.emplace(std::pair(*key, rank.host), matrices.size());
      if (fresh) {
        matrices.push_back({*key, metric, rank.host, {}});
        repetitions.emplace_back();
      }
      const int source = context.ranks[static_cast<std::size_t>(*from)].local_rank;
      repetitions[entry->second][{static_cast<std::size_t>(source), static_cast<std::size_t>(rank.local_rank)}]
          .push_back(*value);
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
                                      const std::map<std::string, std::vector<RankData>>& data) {
  std::vector<Row> rows;
  for (const auto& [name, repetitions] : data) {
    const Key key(name);
    if (!matrix_key(key)) continue;
    for (const RankData& of_ranks : repetitions) {
      rows.emplace_back();
      rows.back().key = key;
      rows.back().by_rank = of_ranks.by_rank;
    }
  }
  return pair_matrices(context, rows);
}

std::string text(const PairMatrix& matrix) {
  const auto worst = matrix.worst();
  const auto n = matrix.values.size();
  std::vector<std::string> head{"src\\dst"};
  for (std::size_t dst = 0; dst < n; ++dst) head.push_back(std::to_string(dst) + " ");
  Table table;
  table.add_words(head);
  for (std::size_t src = 0; src < n; ++src) {
    std::vector<std::string> row{std::to_string(src)};
    for (std::size_t dst = 0; dst < n; ++dst) {
      const auto& value = matrix.values[src][dst];
      const bool is_worst = worst && worst->src == static_cast<int>(src) && worst->dst == static_cast<int>(dst);
      row.push_back((value ? cell_text(*value, matrix.metric) : "-") + (is_worst ? "*" : " "));
    }
    table.add_words(row);
  }
  const auto unit = unit_of(matrix.metric);
  std::string out = one_line(matrix.key.text() + " on " + matrix.host) + ", " + unit +
                    ", source by row, destination by column\n" + table.text({.gap = 1, .indent = "  ", .grid = true});
  if (worst) {
    out += "  * worst: " + std::to_string(worst->src) + " to " + std::to_string(worst->dst) + ", " +
           cell_text(worst->value, matrix.metric) + " " + unit + "\n";
  }
  return out;
}

}  // namespace shakedown
