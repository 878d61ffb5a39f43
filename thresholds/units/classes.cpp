// Decides which units stand out in a class; docs/verdict.md has the rates.
//
// In a class with the shortfalls v of N GPUs (or links), a unit stands out if v - centre exceeds
//   max(effect, 6 s, f, min(most, t g, T s))
// - effect: the smallest difference of hardware: 1.6 % if several rows agree, else the effect of the metric;
// - f, for GEMM per GHz and memory: the smallest fault, which is 2.5 % below the best quarter of the GPUs. Healthy GPUs
//   with remapped rows, or with memory of another make, are less far below. From max(effect, 6 s) to the limit, a GPU
//   is a warning;
// - s: 1.4826 times the median distance of the better half from the centre, combined with the known spread of such
//   chips, with the weight of eight GPUs, because a few GPUs cannot show their own spread. For two or three GPUs s is
//   sqrt(2) times the known spread, since there is only one healthy GPU to compare with;
// - T: the distance of the worst of N from the centre, in s, if tails are as heavy as those of chips, in all but 1 % of
//   fleets, above 64 GPUs 0.03 % (thresholds/units/healthy.hpp): it grows with N, as the number of comparisons
//   does;
// - g: the distance of the best from the centre. Hardware does not become faster by a fault, so the good side shows
//   whether tails are that heavy here: with such tails the worst of any number is beyond t times the best in
//   1 / (1 + t^5) of fleets: for t = 4 in 0.1 %, for t = 5, above 64 GPUs, in 0.03 %. If tails are lighter, g keeps
//   the limit low. A chip that is slow only because of the power limit is not at fault if it is within the range of
//   healthy chips;
// - most: above 64 GPUs, a sixth less than the smallest fault that fleets of all sizes must show.
#include "thresholds/units/classes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/statistics.hpp"
#include "base/threads.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/units/doubt.hpp"
#include "thresholds/units/healthy.hpp"

namespace shakedown {
namespace {

constexpr double sigmas = 6, known_counts_like = 8;
constexpr std::size_t min_units = 3;

double best_quarter(const std::vector<double>& sorted) { return sorted[(sorted.size() - 1) / 4]; }

// Returns the centre of the values. A fault never makes hardware faster. Links are compared with the best quarter,
// because a GPU with bad ports slows most copies of a small host.
double centre_of(const std::vector<double>& sorted, bool links) {
  if (sorted.size() == 2) return sorted.front();
  return links ? best_quarter(sorted) : median(sorted);
}

// Returns the known spread of the median over the rows of a class. The variance of a median is pi / 2 times that of the
// mean.
double known_spread(const Column& column) {
  const auto rows = static_cast<double>(column.cells.front().rows);
  const double of_rows = column.kind.row * column.kind.row * (rows > 1 ? 1.57 / rows : 1);
  return std::sqrt(column.kind.spread * column.kind.spread + of_rows);
}

/// The spread over all classes of one family, metric and number of rows, such as the types of GEMM or the directions of
/// HBM.
struct Seen {
  double variances = 0, units = 0;  // sum of (variance times number of units), and sum of the numbers of units
};
struct SeenTogether {
  std::map<std::tuple<std::string, std::string, std::string, std::size_t>, Seen> spread;
  // By family, metric and device: the largest distance of the best from the centre. A class whose rate is nearly that
  // of the hardware, such as products in f64, has none that are much better.
  std::map<std::tuple<std::string, std::string, std::string>, double> best;
};

Seen& seen_of(SeenTogether& together, const Column& column) {
  return together.spread[{column.name.family(), column.metric, column.device, column.cells.front().rows}];
}

double& best_of(SeenTogether& together, const Column& column) {
  return together.best[{column.name.family(), column.metric, column.device}];
}

// Returns the standard deviation that the shortest half of the values implies. If there are two groups, the result is
// that of the narrower group.
double spread_of_shortest_half(const std::vector<double>& sorted) {
  const std::size_t half = sorted.size() / 2;
  double width = HUGE_VAL;
  for (std::size_t i = 0; i + half <= sorted.size(); ++i) width = std::min(width, sorted[i + half - 1] - sorted[i]);
  return 0.7413 * width;  // half of a normal distribution is within 1.349 standard deviations
}

// Uses the better half of the values, because a fault never makes hardware faster. If there are two groups of healthy
// GPUs, such as two makes of memory, together they are wider than each.
double spread_of_healthy(const std::vector<double>& sorted, double centre) {
  std::vector<double> better;
  for (const double v : sorted) {
    if (v <= centre) better.push_back(centre - v);
  }
  const double sigma = 1.4826 * median(std::move(better));
  constexpr std::size_t min_values = 8;
  if (sorted.size() < min_values) return sigma;
  constexpr double two_groups = 2;
  const double of_half = spread_of_shortest_half(sorted);
  return sigma > two_groups * of_half ? of_half : sigma;
}

/// Subtracts the centre from the shortfalls, and stores the distance of the best value from the centre in column.limit.
void measure(Column& column, SeenTogether& together) {
  std::vector<double> sorted;
  sorted.reserve(column.cells.size());
  for (const Cell& cell : column.cells) sorted.push_back(cell.shortfall);
  std::sort(sorted.begin(), sorted.end());
  const bool links = column.cells.front().unit.kind == UnitKind::link;
  // If one GPU of four has bad ports, half of the links are slow.
  if (column.name.family() != "p2p") sorted.resize(better_group(sorted, column.kind.class_effect));
  const double centre = centre_of(sorted, links);
  for (Cell& cell : column.cells) cell.shortfall -= centre;
  column.ahead = centre - best_quarter(sorted);
  if (column.cells.size() <= min_units) return;
  column.limit = centre - sorted.front();
  best_of(together, column) = std::max(best_of(together, column), column.limit);
  const double s = spread_of_healthy(sorted, centre);
  Seen& seen = seen_of(together, column);
  seen.variances += s * s * static_cast<double>(sorted.size());
  seen.units += static_cast<double>(sorted.size());
}

// True if small differences matter: GEMM per GHz, and memory.
bool is_exact(const Column& column) { return column.kind.class_effect < column.kind.effect; }

double most_of(const Column& column) {
  if (column.kind.clocked) return column.kind.effect;
  if (!is_exact(column)) return HUGE_VAL;
  return column.name.family() == "hbm" ? least_fault : max_gemm_limit;
}

void limit(Column& column, SeenTogether& together) {
  const double known = known_spread(column);
  const Seen seen = seen_of(together, column);
  const std::size_t units = column.cells.size();
  column.scale =
      units <= min_units
          ? std::sqrt(2.0) * known
          : std::sqrt((known_counts_like * known * known + seen.variances) / (known_counts_like + seen.units));
  const double least = sigmas * column.scale;
  if (units < large_fleet) {
    const double heavy = worst_of(units, alpha_of_small_fleets) * column.scale;
    column.limit = std::max(least, std::min(of_the_best_of_small_fleets * column.limit, heavy));
  } else {
    const double heavy = worst_of(units, healthy_named) * column.scale;
    const bool alone = is_exact(column) && column.cells.front().rows == 1;
    const double best = alone ? best_of(together, column) : column.limit;
    column.limit = std::max(least, std::min({worst_by_best(best), heavy, most_of(column)}));
  }
  if (!is_exact(column)) return;
  column.warning_limit = std::max(least, column.kind.class_effect);
  column.limit = std::max(column.limit, least_fault - column.ahead);
}

bool is_repeated(const Key& row, const PeerValue& value) { return value.repetitions >= confirming_repetitions(row); }

using UnitValue = std::pair<Unit, const PeerValue*>;

// Returns the shortfall that most rows confirm: the lower median, which of two rows is the better row.
Cell cell_of(const Key& name, std::span<const UnitValue> values) {
  std::vector<double> shortfalls;
  for (const auto& [unit, value] : values) shortfalls.push_back(value->shortfall);
  const auto middle = shortfalls.begin() + static_cast<std::ptrdiff_t>((shortfalls.size() - 1) / 2);
  std::nth_element(shortfalls.begin(), middle, shortfalls.end());
  return {values.front().first, static_cast<std::uint32_t>(shortfalls.size()), *middle,
          is_repeated(name, *values.front().second), false};
}

void fill(Column& column, const std::vector<Comparison>& comparisons) {
  // Counting sort by rank, because 10,000 GPUs have a million values.
  std::vector<std::vector<UnitValue>> by_rank(column.context->ranks.size());
  for (const std::size_t row : column.rows) {
    for (const PeerValue& v : comparisons[row].values) {
      const Unit unit = unit_of(column.name, v.unit.rank, v.unit.source());
      by_rank[static_cast<std::size_t>(unit.rank)].emplace_back(unit, &v);
    }
  }
  for (auto& values : by_rank) {
    std::ranges::stable_sort(values, {}, &UnitValue::first);
    for (auto first = values.begin(); first != values.end();) {
      const auto last = std::find_if(first, values.end(), [&](const UnitValue& v) { return v.first != first->first; });
      column.cells.push_back(cell_of(column.name, {first, last}));
      first = last;
    }
  }
  column.cells.shrink_to_fit();
}

// Returns which end of copies a class describes: "src", "dst" or neither.
std::string_view end_of(const Column& column) { return column.name.part("end"); }

void add_columns(UnitTable& table) {
  std::map<std::tuple<ClassMetric, std::string, int>, std::size_t> index;
  for (std::size_t row = 0; row < table.comparisons.size(); ++row) {
    const Comparison& c = table.comparisons[row];
    auto names = classes_of(c.key);
    // A row that has repetitions confirms itself, so it is a class of its own.
    const bool repeated = std::ranges::any_of(c.values, [&](const PeerValue& v) { return is_repeated(c.key, v); });
    if (repeated && std::ranges::find(names, c.key) == names.end()) names.push_back(c.key);
    for (const Key& name : names) {
      const ClassMetric of{name, c.metric};
      const auto [found, fresh] = index.emplace(std::tuple(of, c.device, c.context->world_size), table.columns.size());
      if (fresh) table.columns.push_back({of, c.device, c.kind, c.context});
      table.columns[found->second].rows.push_back(row);
    }
  }
  // A class that has the same rows as a wider class is redundant.
  std::set<std::pair<std::string, std::vector<std::size_t>>> seen;
  std::erase_if(table.columns, [&](const Column& c) { return !seen.emplace(end_of(c), c.rows).second; });
}

// Returns the limit. The limit is lower if several rows agree, but never because one row has more repetitions.
double limit_of(const Column& column, const Cell& cell) {
  const bool few_rows = !column.name.part("engine").empty();  // of three rows, two may be low by accident
  return std::max(column.limit, cell.rows > 1 && !few_rows ? column.kind.class_effect : column.kind.effect);
}

// Returns how far the clock of a chip is below the median, if only the power cap lowers it.
std::optional<double> slower_by_power(const Column& column, const Cell& cell, const RankTelemetry& telemetry) {
  if (!column.kind.clocked || !telemetry.power_limited(cell.unit.rank)) return std::nullopt;
  return slower_by(cell.shortfall, lower_is_better(column.metric));
}

// True if the cell is slower than healthy units are, and not only because of the power cap.
bool is_beyond(const Column& column, const Cell& cell, const RankTelemetry& telemetry) {
  if (cell.shortfall <= column.limit || cell.shortfall <= limit_of(column, cell)) return false;
  const auto by_power = slower_by_power(column, cell, telemetry);
  return !by_power || *by_power > slowest_of(column.context->ranks.size(), true);
}

// A family, and whether its rows are long loads.
using Load = std::pair<std::string, bool>;
Load load_of(const Column& column) { return {std::string(column.name.family()), is_long_load(column.name)}; }

// By unit: the loads in which it is slower than healthy units are.
using SlowLoads = std::map<Unit, std::set<Load>>;

SlowLoads slow_loads(const std::vector<Column>& columns, const RankTelemetry& telemetry) {
  SlowLoads slow;
  for (const Column& column : columns) {
    for (const Cell& cell : column.cells) {
      if (is_beyond(column, cell, telemetry)) slow[cell.unit].insert(load_of(column));
    }
  }
  return slow;
}

// True if other rows, repetitions or, for a long load, another load confirm the cell.
bool is_confirmed(const Column& column, const Cell& cell, const SlowLoads& slow) {
  if (cell.rows > 1 || cell.repeated || column.metric == "capacity_gb") return true;
  return is_long_load(column.name) && slow.at(cell.unit).size() > 1;
}

// Marks the outlier cells and their values.
void mark(Column& column, std::vector<Comparison>& comparisons, const RankTelemetry& telemetry, const SlowLoads& slow) {
  std::map<Unit, bool> out;  // by unit: whether it is confirmed that it is an outlier
  for (Cell& cell : column.cells) {
    if (!is_beyond(column, cell, telemetry)) continue;
    const auto by_power = slower_by_power(column, cell, telemetry);
    cell.out = is_confirmed(column, cell, slow) && !(by_power && *by_power <= doubtful_by_power);
    out.emplace(cell.unit, cell.out);
  }
  const double limit = limit_of(column, column.cells.back());
  column.limit = limit;
  for (const std::size_t row : column.rows) {
    Comparison& c = comparisons[row];
    if (c.limit == 0 || !out.empty()) {
      c.limit = limit;
      c.scale = column.scale;
    }
    if (out.empty()) continue;
    for (PeerValue& v : c.values) {
      const auto found = out.find(unit_of(column.name, v.unit.rank, v.unit.source()));
      if (found == out.end() || v.shortfall <= limit / 2) continue;
      (found->second ? v.out : v.noted) = true;
    }
  }
}

}  // namespace

std::size_t better_group(const std::vector<double>& sorted, double effect) {
  for (std::size_t n = 2; 2 * n <= sorted.size(); ++n) {
    const double apart = sorted[n] - sorted[n - 1];
    if (apart > std::max({effect, sorted[n - 1] - sorted.front(), sorted.back() - sorted[n]})) return n;
  }
  return sorted.size();
}

std::size_t threads_for(const UnitTable& table) {
  constexpr int many_ranks = 1024;
  return table.ranks < many_ranks ? 1 : std::numeric_limits<std::size_t>::max();
}

void fill_columns(UnitTable& table) {
  add_columns(table);
  in_threads(
      numbers_below(table.columns.size()), [&](std::size_t i) { fill(table.columns[i], table.comparisons); },
      threads_for(table));
  // With two GPUs, the copies of one GPU are a single link, which is already a class of its own.
  std::erase_if(table.columns, [](const Column& c) { return !end_of(c).empty() && c.cells.front().rows == 1; });
  SeenTogether together;
  for (Column& column : table.columns) measure(column, together);
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    Column& column = table.columns[i];
    limit(column, together);
    table.columns_of[column].push_back(i);
  }
  const SlowLoads slow = slow_loads(table.columns, table.telemetry);
  for (Column& column : table.columns) mark(column, table.comparisons, table.telemetry, slow);
}

}  // namespace shakedown
