#include "thresholds/units/populations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/key.hpp"
#include "base/statistics.hpp"
#include "base/text.hpp"
#include "thresholds/results/hosts.hpp"

namespace shakedown {
namespace {

constexpr std::size_t min_gpus = 4, min_hosts = 2;
constexpr double min_difference = 0.005;
/// The share of the faster side that may be slower than the whole slower side.
constexpr double max_exceptions = 0.1;

struct Side {
  std::vector<double> shortfalls;  // sorted
  std::set<std::string> hosts;

  bool is_large() const { return shortfalls.size() >= min_gpus && hosts.size() >= min_hosts; }
};

void add(Side& side, const Column& column, const Cell& cell) {
  side.shortfalls.push_back(cell.shortfall);
  side.hosts.insert(column.context->ranks[static_cast<std::size_t>(cell.unit.rank)].host);
}

// Whether all of `slower` are slower than all of `faster`, except for a few that are slower than both.
bool are_apart(const Side& slower, const Side& faster) {
  const auto last = std::upper_bound(faster.shortfalls.begin(), faster.shortfalls.end(), slower.shortfalls.back());
  const auto exceptions = static_cast<double>(faster.shortfalls.end() - last);
  if (exceptions > max_exceptions * static_cast<double>(faster.shortfalls.size())) return false;
  return last != faster.shortfalls.begin() && *(last - 1) < slower.shortfalls.front() &&
         median(slower.shortfalls) - median(faster.shortfalls) >= min_difference;
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
  if (!slower.is_large() || !faster.is_large()) return std::nullopt;
  std::sort(slower.shortfalls.begin(), slower.shortfalls.end());
  std::sort(faster.shortfalls.begin(), faster.shortfalls.end());
  if (!are_apart(slower, faster)) return std::nullopt;
  return Population{.fact = fact,
                    .class_name = column.name,
                    .metric = column.metric,
                    .value = value,
                    .other_values = joined(others),
                    .slower_gpus = slower.shortfalls.size(),
                    .other_gpus = faster.shortfalls.size(),
                    .difference = median(slower.shortfalls) - median(faster.shortfalls)};
}

// A fact that the first rank of a host reads holds for all of its ranks.
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
      text += "; " + fact.name + " " + *own + ", of most others " + most->first;
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
  std::vector<Population> all;
  for (auto& [family, population] : by_family) all.push_back(std::move(population));
  return all;
}

std::vector<Finding> findings_of(const std::vector<Population>& populations) {
  std::vector<Finding> findings;
  for (const Population& p : populations) {
    Finding f;
    classify(f, Code::population);
    f.key = p.class_name;
    f.metric = p.metric + "_by_" + p.fact;
    f.judgement = Judgement::peers;
    f.status = Status::fail;
    f.severity = Severity::info;
    f.detail = fmt::format(
        "{} GPUs with {} {} are {} slower than {} with {}: one difference of the fleet, which says "
        "nothing about a single GPU",
        p.slower_gpus, p.fact, p.value, percent_text(p.difference), p.other_gpus, p.other_values);
    f.source = "the GPUs of this run, by " + p.fact;
    f.next = "ask the vendor which " + p.fact + " was ordered, and install it on all nodes";
    findings.push_back(std::move(f));
  }
  return findings;
}

}  // namespace shakedown
