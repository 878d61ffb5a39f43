#include "thresholds/units/populations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/key.hpp"
#include "base/statistics.hpp"
#include "base/text.hpp"
#include "thresholds/results/hosts.hpp"
#include "thresholds/units/healthy.hpp"

namespace shakedown {
namespace {

constexpr std::size_t min_gpus = 4, min_hosts = 2;
constexpr double min_difference = 0.005;
/// The fraction of the faster group that may be as slow as the typical GPU of the slower group. This fraction allows
/// for one of eight hosts.
constexpr double max_exceptions = 0.2;
/// The largest p of the rank test. Four GPUs on each side without an exception reach 1/70.
constexpr double max_p_value = 0.015;
/// If no fact divides the GPUs: the smallest fraction of GPUs in each group, and the fraction of the slower group that
/// may be faulty.
constexpr double min_share = 0.1, max_faulty = 0.1;
/// The largest difference if no fact divides the GPUs, or if only one host has another value of a fact.
constexpr double max_unexplained = least_fault;

struct Side {
  std::vector<double> shortfalls;  // sorted
  std::set<std::string> hosts;

  bool is_large() const { return shortfalls.size() >= min_gpus && hosts.size() >= min_hosts; }
  // Returns the width of the group without this fraction of its slowest values.
  double width(double left_out) const {
    const auto slowest = static_cast<std::size_t>(std::ceil(left_out * static_cast<double>(shortfalls.size())));
    return shortfalls[shortfalls.size() - 1 - slowest] - shortfalls.front();
  }
};

void add(Side& side, const Column& column, const Cell& cell) {
  side.shortfalls.push_back(cell.shortfall);
  side.hosts.insert(column.context->ranks[static_cast<std::size_t>(cell.unit.rank)].host);
}

// True if the difference of the groups explains why all of `slower` are slower. A fault never makes a GPU faster. A GPU
// of the slower group that is as fast as the typical GPU of the faster group is therefore an exception. The slowest and
// the fastest GPUs of two groups may overlap, because each group has the tails of healthy chips.
bool are_apart(const Side& slower, const Side& faster) {
  const double typical = median(slower.shortfalls), other = median(faster.shortfalls);
  if (typical - other < min_difference || slower.shortfalls.front() <= other) return false;
  const auto exceptions = faster.shortfalls.end() - std::ranges::lower_bound(faster.shortfalls, typical);
  if (static_cast<double>(exceptions) > max_exceptions * static_cast<double>(faster.shortfalls.size())) return false;
  return mann_whitney_u(faster.shortfalls, slower.shortfalls).p_greater <= max_p_value;
}

Population population_of(const Column& column, const Side& slower, const Side& faster) {
  Population population;
  population.class_name = column.name;
  population.metric = column.metric;
  population.slower_gpus = slower.shortfalls.size();
  population.other_gpus = faster.shortfalls.size();
  population.difference = median(slower.shortfalls) - median(faster.shortfalls);
  population.groups.resize(column.context->ranks.size());
  if (slower.hosts.size() == 1) population.host = *slower.hosts.begin();
  return population;
}

std::optional<Population> population_by(const Column& column, const std::string& fact, const std::string& value,
                                        const DividingFacts& facts) {
  Side slower, faster;
  std::set<std::string> others;
  for (const Cell& cell : column.cells) {
    const auto own = facts.value(fact, cell.unit.rank);
    if (!own) return std::nullopt;
    add(*own == value ? slower : faster, column, cell);
    if (*own != value) others.insert(*own);
  }
  if (slower.shortfalls.size() < min_gpus || !faster.is_large()) return std::nullopt;
  std::sort(slower.shortfalls.begin(), slower.shortfalls.end());
  std::sort(faster.shortfalls.begin(), faster.shortfalls.end());
  Population population = population_of(column, slower, faster);
  if (population.host && population.difference > max_unexplained) return std::nullopt;
  const double slowest = median(faster.shortfalls) + max_unexplained;
  std::erase_if(faster.shortfalls, [&](double shortfall) { return shortfall > slowest; });
  if (!are_apart(slower, faster)) return std::nullopt;
  population.fact = fact;
  population.value = value;
  population.other_values = joined(others);
  for (std::size_t rank = 0; rank < population.groups.size(); ++rank) {
    population.groups[rank] = "with " + fact + " " + facts.value(fact, static_cast<int>(rank)).value_or("unknown");
  }
  return population;
}

// GPUs from the fastest to the slowest. The slower group begins at `split`. GPUs from `end` on are in neither group.
struct Gap {
  std::size_t split = 0, end = 0;
  double width = 0;
};

// Finds the widest gap that has at least `least` GPUs on each side. GPUs that are slower than the faster group by more
// than healthy groups differ are in neither group.
Gap widest_gap(const std::vector<double>& sorted, std::size_t least) {
  Gap widest;
  for (std::size_t i = least; i + least <= sorted.size(); ++i) {
    const double width = sorted[i] - sorted[i - 1];
    if (width <= widest.width) continue;
    const auto end = std::ranges::upper_bound(sorted, sorted[i / 2] + max_unexplained);
    const auto slower_end = static_cast<std::size_t>(end - sorted.begin());
    if (slower_end >= i + least) widest = {i, slower_end, width};
  }
  return widest;
}

std::optional<Population> population_by_gap(const Column& column) {
  std::vector<const Cell*> cells;
  for (const Cell& cell : column.cells) cells.push_back(&cell);
  std::ranges::stable_sort(cells, {}, &Cell::shortfall);
  std::vector<double> shortfalls;
  for (const Cell* cell : cells) shortfalls.push_back(cell->shortfall);
  const auto share = static_cast<std::size_t>(std::ceil(min_share * static_cast<double>(cells.size())));
  const Gap gap = widest_gap(shortfalls, std::max(min_gpus, share));
  if (gap.width < min_difference) return std::nullopt;
  Side slower, faster;
  for (std::size_t i = 0; i < gap.end; ++i) add(i < gap.split ? faster : slower, column, *cells[i]);
  if (!slower.is_large() || !faster.is_large()) return std::nullopt;
  if (gap.width <= std::max(slower.width(max_faulty), faster.width(0))) return std::nullopt;
  Population population = population_of(column, slower, faster);
  // GPUs that are in neither group are compared with the faster one, because the difference of the groups explains a
  // part of their distance, but not all of it.
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool is_slower = i >= gap.split && i < gap.end;
    population.groups[static_cast<std::size_t>(cells[i]->unit.rank)] =
        is_slower ? "of the slower group" : "of the faster group";
  }
  return population;
}

// Returns the fact of each rank. A fact of the first rank of a host is valid for all of its ranks.
std::vector<std::optional<std::string>> of_each_rank_of_a_host(const Context& context,
                                                               std::vector<std::optional<std::string>> values) {
  std::map<std::string, std::optional<std::string>> by_host;
  for (const RankFacts& rank : context.ranks) {
    const auto i = static_cast<std::size_t>(rank.rank);
    if (i < values.size() && values[i]) by_host[rank.host] = values[i];
  }
  values.resize(context.ranks.size());
  for (const RankFacts& rank : context.ranks) values[static_cast<std::size_t>(rank.rank)] = by_host[rank.host];
  return values;
}

void describe_by_fact(Finding& f, const Population& p) {
  f.metric = p.metric + "_by_" + *p.fact;
  f.detail = fmt::format(
      "{} GPUs with {} {} are {} slower than {} with {}: a difference between two groups of the fleet, which says "
      "nothing about a single GPU",
      p.slower_gpus, *p.fact, p.value, percent_text(p.difference), p.other_gpus, p.other_values);
  f.source = "the GPUs of this run, by " + *p.fact;
  f.next = "ask the vendor which " + *p.fact + " was ordered, and install it on all nodes";
}

void describe_by_gap(Finding& f, const Population& p) {
  f.metric = p.metric + "_by_group";
  f.detail = fmt::format(
      "{} GPUs are {} slower than the {} others, with none between: a difference between two groups, such as two makes "
      "of "
      "memory, which says nothing about a single GPU",
      p.slower_gpus, percent_text(p.difference), p.other_gpus);
  f.source = "the GPUs of this run, in two groups that no known fact divides";
  f.next = "ask the vendor whether parts of two makes were delivered";
}

}  // namespace

DividingFacts::DividingFacts(const Benchmarks& benchmarks) {
  const auto add = [&](const char* key, const char* name, bool of_host) {
    const auto found = benchmarks.find(key);
    if (found == benchmarks.end()) return;
    auto values = rank_texts(found->second, name);
    if (of_host) values = of_each_rank_of_a_host(*found->second.context, std::move(values));
    if (!values.empty()) facts_.push_back({name, std::move(values)});
  };
  add("preflight/of:gpu", "vbios", false);
  add("preflight/of:host", "driver", true);
}

std::optional<std::string> DividingFacts::value(const std::string& fact, int rank) const {
  for (const Fact& f : facts_) {
    if (f.name == fact && static_cast<std::size_t>(rank) < f.values.size())
      return f.values[static_cast<std::size_t>(rank)];
  }
  return std::nullopt;
}

std::string DividingFacts::hint(const std::vector<int>& ranks) const {
  std::string text;
  for (const Fact& fact : facts_) {
    const auto own = ranks.empty() ? std::nullopt : value(fact.name, ranks.front());
    if (!own) continue;
    std::map<std::string, std::size_t> count;
    for (const auto& known : fact.values) {
      if (known) ++count[*known];
    }
    const bool same = std::ranges::all_of(ranks, [&](int rank) { return value(fact.name, rank) == own; });
    const auto most = std::ranges::max_element(count, {}, [](const auto& entry) { return entry.second; });
    if (same && most->first != *own && 2 * most->second > fact.values.size())
      text += "; " + fact.name + " " + *own + ", unlike most others with " + most->first;
  }
  return text;
}

std::vector<Population> find_populations(const UnitTable& table, const DividingFacts& facts) {
  std::map<std::string, Population> by_family;
  for (const DividingFacts::Fact& fact : facts.all()) {
    std::set<std::string> values;
    for (const auto& value : fact.values) {
      if (value) values.insert(*value);
    }
    if (values.size() < 2) continue;
    for (const Column& column : table.columns) {
      if (column.cells.front().unit.kind == UnitKind::link) continue;
      for (const std::string& value : values) {
        const auto population = population_by(column, fact.name, value, facts);
        if (population) by_family.emplace(column.name.family(), *population);
      }
    }
  }
  for (const Column& column : table.columns) {
    // In other classes the difference has no effect.
    if (column.cells.front().unit.kind != UnitKind::gpu || column.kind.class_effect > max_unexplained) continue;
    if (by_family.contains(column.name.family())) continue;
    if (auto population = population_by_gap(column)) by_family.emplace(column.name.family(), std::move(*population));
  }
  std::vector<Population> all;
  for (auto& [family, population] : by_family) all.push_back(std::move(population));
  return all;
}

std::vector<Finding> findings_of(const std::vector<Population>& populations) {
  std::vector<Finding> findings;
  for (const Population& p : populations) {
    if (p.host) continue;  // it is a suspect and not a population
    Finding f;
    classify(f, Code::population);
    f.key = p.class_name;
    f.judgement = Judgement::peers;
    f.status = Status::fail;
    f.severity = Severity::info;
    (p.fact ? describe_by_fact : describe_by_gap)(f, p);
    findings.push_back(std::move(f));
  }
  return findings;
}

}  // namespace shakedown
