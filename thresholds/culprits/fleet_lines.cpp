// Decides which groups of GPUs get a line in the report.
//
// A group is slow if its median is below the median of all other GPUs by more than
//   max(2 %, z s),  s = 1.2533 sigma sqrt(1 / n + 1 / m),   z = the normal quantile at alpha / (groups compared)
// with n GPUs in the group, m other GPUs, sigma the standard deviation between GPUs, and 1.2533 = sqrt(pi / 2) for
// medians. Without this limit, the report on 1,250 hosts with eight chips each would list many hosts that have slow
// chips by chance. The same rule decides about heat, from 8 C on.
#include "thresholds/culprits/fleet_lines.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numbers>
#include <utility>

#include "base/statistics.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/rules/applicability.hpp"
#include "thresholds/units/classes.hpp"
#include "thresholds/units/populations.hpp"

namespace shakedown {
namespace {

constexpr double min_slower_share = 0.02, min_hotter_celsius = 8, alpha = 0.01;
// Standard deviation of GPU temperatures under equal load, which depend on the place in the air flow of a host.
constexpr double known_celsius = 3;

using ByGpu = std::vector<std::optional<double>>;
using Groups = std::map<std::string, std::vector<std::size_t>>;  // by name: the ranks

std::vector<std::string> of_hosts(const Context& context, const std::map<std::string, std::string>& places) {
  std::vector<std::string> words;
  for (const RankFacts& rank : context.ranks) {
    const auto found = places.find(rank.host);
    words.push_back(found == places.end() ? "" : found->second);
  }
  return words;
}

// Returns a fact of each rank; empty if it is unknown.
std::vector<std::string> of_ranks(const DividingFacts& facts, const std::string& name, std::size_t ranks) {
  std::vector<std::string> words(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) words[rank] = facts.value(name, static_cast<int>(rank)).value_or("");
  return words;
}

// Returns the kinds of groups with their groups. Omits a kind that has no known group or only one.
std::vector<std::pair<Grouping, Groups>> groupings(const Measured& measured, const Context& context,
                                                   const Places& places) {
  auto leaves = places.leaves;
  for (const HostFacts& host : context.inventory) {
    if (host.leaf) leaves[host.host] = *host.leaf;
  }
  std::vector<std::string> hosts;
  for (const RankFacts& rank : context.ranks) hosts.push_back(rank.host);
  const DividingFacts facts(measured.benchmarks);

  std::vector<std::pair<Grouping, Groups>> result;
  for (const auto& [by, words] : std::initializer_list<std::pair<Grouping, std::vector<std::string>>>{
           {Grouping::rack, of_hosts(context, places.racks)},
           {Grouping::leaf, of_hosts(context, leaves)},
           {Grouping::firmware, of_ranks(facts, "vbios", hosts.size())},
           {Grouping::driver, of_ranks(facts, "driver", hosts.size())},
           {Grouping::host, hosts}}) {
    Groups groups;
    for (std::size_t rank = 0; rank < words.size(); ++rank) {
      if (!words[rank].empty()) groups[words[rank]].push_back(rank);
    }
    if (groups.size() > 1) result.emplace_back(by, std::move(groups));
  }
  return result;
}

struct Statistics {
  std::size_t known = 0;
  double median = 0, p1 = 0, p99 = 0;
  double ahead = 0;  // median of all other GPUs
  bool beyond_chance = false;
};

/// The sorted values of all GPUs. With it, the median of all values outside of a group is found quickly.
class Fleet {
 public:
  Fleet(const ByGpu& values, double known_sigma) : values_(values), places_(values.size()) {
    std::vector<std::size_t> order;
    for (std::size_t gpu = 0; gpu < values.size(); ++gpu) {
      if (values[gpu]) order.push_back(gpu);
    }
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return std::pair(*values[a], a) < std::pair(*values[b], b); });
    for (const std::size_t gpu : order) {
      places_[gpu] = sorted_.size();
      sorted_.push_back(*values[gpu]);
    }
    sigma_ = std::max(known_sigma, sorted_.empty() ? 0 : robust_sigma(sorted_));
  }

  Statistics of(const std::vector<std::size_t>& gpus, std::size_t groups) const {
    std::vector<double> mine;
    std::vector<std::size_t> places;
    for (const std::size_t gpu : gpus) {
      if (gpu >= values_.size() || !values_[gpu]) continue;
      mine.push_back(*values_[gpu]);
      places.push_back(places_[gpu]);
    }
    Statistics result{mine.size()};
    const std::size_t others = sorted_.size() - mine.size();
    if (mine.empty() || others == 0) return result;
    std::sort(places.begin(), places.end());
    const double chance = std::sqrt(std::numbers::pi / 2) * sigma_ *
                          std::sqrt(1 / static_cast<double>(mine.size()) + 1 / static_cast<double>(others));
    result.median = median(mine);
    result.ahead = result.median - (other((others - 1) / 2, places) + other(others / 2, places)) / 2;
    result.beyond_chance = std::abs(result.ahead) > bonferroni_z(groups, alpha) * chance;
    result.p1 = quantile(mine, 0.01);
    result.p99 = quantile(std::move(mine), 0.99);
    return result;
  }

 private:
  // Returns the nth value, without counting values at these places.
  double other(std::size_t n, const std::vector<std::size_t>& left_out) const {
    for (const std::size_t place : left_out) {
      if (place > n) break;
      ++n;
    }
    return sorted_[n];
  }

  const ByGpu& values_;
  std::vector<std::size_t> places_;
  std::vector<double> sorted_;
  double sigma_ = 0;
};

// Returns how much faster each GPU is than the other GPUs in a class. For copies, this is the median of the copies that
// it receives.
ByGpu faster(const Column& column) {
  std::vector<std::vector<double>> all(column.context->ranks.size());
  for (const Cell& cell : column.cells) all[static_cast<std::size_t>(cell.unit.rank)].push_back(-cell.shortfall);
  ByGpu result;
  for (auto& values : all) result.push_back(values.empty() ? std::nullopt : std::optional(median(std::move(values))));
  std::vector<double> known;
  for (const auto& value : result) {
    if (value) known.push_back(*value);
  }
  const double centre = median(std::move(known));
  for (auto& value : result) {
    if (value) *value -= centre;
  }
  return result;
}

// True for the widest class of each kind of figure. The rate per clock is used for each GPU, but not for racks, which
// differ in clocks.
bool is_shown(const Column& column) {
  const bool wide = column.name == column.name.family() || column.name == "pcie/active:one";
  return wide && aspect_of(column.name, column.metric) != Aspect::gemm && column.metric != "capacity_gb" &&
         column.name != "pcie";
}

void add_lines(FleetLines& said, const Measured& measured, const UnitTable& table, const Places& places) {
  const Context& context = *table.columns.front().context;
  ByGpu degrees;
  for (const RankFacts& rank : context.ranks) degrees.push_back(table.telemetry.value(rank.rank, "temperature_c"));
  const Fleet heat(degrees, known_celsius);
  const auto kinds = groupings(measured, context, places);
  for (const Column& column : table.columns) {
    if (!is_shown(column) || column.context->world_size != context.world_size) continue;
    const ByGpu values = faster(column);
    const Fleet fleet(values, column.kind.spread);
    for (const auto& [by, groups] : kinds) {
      std::vector<FleetLine> lines;
      for (const auto& [name, gpus] : groups) {
        const Statistics s = fleet.of(gpus, groups.size()), c = heat.of(gpus, groups.size());
        if (s.known == 0 || s.known == context.ranks.size()) continue;
        FleetLine line{by, name, column.name, s.known, s.median, s.p1, s.p99, s.ahead};
        if (c.known > 0) line.temperature_c = c.median, line.hotter_c = c.ahead;
        line.slow = s.ahead <= -min_slower_share && s.beyond_chance;
        line.hot = c.ahead >= min_hotter_celsius && c.beyond_chance;
        lines.push_back(std::move(line));
      }
      std::stable_sort(lines.begin(), lines.end(), [](const FleetLine& a, const FleetLine& b) {
        const bool a_off = a.slow || a.hot, b_off = b.slow || b.hot;
        return a_off != b_off ? a_off : a.median < b.median;
      });
      if (lines.size() > max_fleet_lines) lines.resize(max_fleet_lines);
      std::move(lines.begin(), lines.end(), std::back_inserter(said.lines));
    }
  }
}

// A limit that the fleet exceeds by more than this is not a reference but only a sanity limit. Examples are launches,
// jitter and collectives of one rank.
constexpr double says_something = 1.0;

std::optional<double> typical(const Benchmark& benchmark, const Rule& rule) {
  if (rule.every == Every::run) return run_value(benchmark, rule.metric);
  std::vector<double> known;
  for (const auto& value : rank_values(benchmark, rule.metric)) {
    if (value) known.push_back(*value);
  }
  return known.empty() ? std::nullopt : std::optional(median(std::move(known)));
}

// If a class has rows with a reference, its rows with only a limit are ignored.
std::vector<FleetLevel> levels(const Measured& measured, const Profile& profile) {
  std::map<ClassMetric, std::array<std::vector<double>, 2>> all;
  for (const Rule& rule : profile.rules) {
    const bool less = lower_is_better(rule.metric);
    const auto limit = rule.limits.reference ? rule.limits.reference : less ? rule.limits.max : rule.limits.min;
    if (rule.benchmark.family() == "preflight" || rule.severity != Severity::fail || !limit || !(*limit > 0)) continue;
    for (const Key& key : expand(rule, measured.files.front().context).keys) {
      const auto found = measured.benchmarks.find(key);
      if (found == measured.benchmarks.end() || found->second.error() != nullptr) continue;
      if (applicability(rule.conditions, *found->second.context).applies != Applies::yes) break;
      const auto value = typical(found->second, rule);
      if (!value || !(*value > 0)) continue;
      all[{classes_of(key).front(), rule.metric}][rule.limits.reference ? 0 : 1].push_back(less ? *limit / *value - 1
                                                                                                : *value / *limit - 1);
    }
  }
  std::vector<FleetLevel> result;
  for (auto& [name, rows] : all) {
    const bool reference = !rows[0].empty();
    auto& taken = rows[reference ? 0 : 1];
    const std::size_t count = taken.size();
    const double distance = median(std::move(taken));
    if (distance <= says_something) result.push_back({name.name, name.metric, count, distance, reference});
  }
  return result;
}

}  // namespace

std::string group_text(const FleetLine& line) { return std::string(name(line.by)) + " " + line.group; }

FleetLines fleet_lines(const Measured& measured, const UnitTable& table, const Profile* profile, const Places& places) {
  FleetLines said;
  // CPUs have only sanity limits, so the difference from them means nothing.
  const bool gpus = !measured.files.empty() && measured.files.front().context.backend == Backend::cuda;
  if (profile != nullptr && gpus) said.levels = levels(measured, *profile);
  // On the host backend ranks share cores, so groups do not explain why ranks are slow.
  if (table.counts && !table.columns.empty()) add_lines(said, measured, table, places);
  return said;
}

}  // namespace shakedown
