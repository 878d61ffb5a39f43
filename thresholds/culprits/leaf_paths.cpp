#include "thresholds/culprits/leaf_paths.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/statistics.hpp"
#include "thresholds/catalogue/pair_limits.hpp"

namespace shakedown {
namespace {

using LeafPair = std::pair<std::string, std::string>;

/// The median rate of two leaf switches, relative to the usual rate.
struct Rate {
  double x = 0;
  bool is_slow = false;
};
using Rates = std::map<LeafPair, Rate>;

/// Selects values of first measurements between hosts that no fault explains.
struct UsableValues {
  const std::set<PairRounds::Place>& explained;

  bool operator()(const PairRounds::Value& value, std::size_t rail) const {
    return !value.confirms && !explained.contains({value.host, rail}) && !explained.contains({value.partner, rail});
  }
};

/// The limit for the best of one or two values, which have heavier tails than a median, relative to the fastest value.
constexpr double slow_of_few = 0.9;

bool touches(const LeafPair& pair, const std::string& leaf) { return pair.first == leaf || pair.second == leaf; }

// Returns the leaf switch with the most slow paths. The leaf switch must have at least two paths, and all must be slow;
// nullopt if there is no such switch.
std::optional<std::string> slow_leaf(const Rates& rates) {
  std::map<std::string, std::pair<int, int>> count;  // number of slow paths, and of all paths
  for (const auto& [pair, rate] : rates) {
    for (const auto& leaf : {pair.first, pair.second}) {
      count[leaf].first += rate.is_slow ? 1 : 0;
      ++count[leaf].second;
    }
  }
  const auto most = std::ranges::max_element(count, {}, [](const auto& entry) { return entry.second.first; });
  const bool is_slow = most != count.end() && most->second.first >= 2 && most->second.first >= most->second.second;
  return is_slow ? std::optional(most->first) : std::nullopt;
}

/// Returns the largest probability that scatter alone makes the `own` values of some leaf switch lie among the `low`
/// lowest of all.
double chance_of_lowest(std::size_t leaves, std::size_t own, std::size_t low, std::size_t all) {
  double chance = static_cast<double>(leaves);
  for (std::size_t i = 0; i < own; ++i) chance *= static_cast<double>(low - i) / static_cast<double>(all - i);
  return chance;
}

/// Returns the rate of a leaf switch to others, relative to all other pairs of the rail, if each of its values is far
/// below the others, of which a pause may slow one; else nullopt. This rule needs no minimum number of values of a
/// path, and no estimate of the scatter, which two bad paths of three would dominate.
std::optional<double> separate_rate(const PairRounds& rounds, std::size_t rail, const std::string& leaf,
                                    const UsableValues& is_used) {
  constexpr double largest_chance = 0.02, gap = 0.9;
  std::vector<double> own, others;
  std::set<std::size_t> hosts;
  std::set<std::string> partners;
  for (const auto& [place, values] : rounds.at) {
    const std::string& here = rounds.hosts[place.first].leaf;
    for (const auto& value : values) {
      const std::string& there = rounds.hosts[value.partner].leaf;
      if (place.second != rail || !is_used(value, rail) || here.empty() || there.empty()) continue;
      if (here == leaf && there != leaf) {
        own.push_back(value.rate);
        hosts.insert(place.first);
        partners.insert(there);
      } else if ((there != leaf || here == leaf) && place.first < value.partner) {
        others.push_back(value.rate);
      }
    }
  }
  if (own.size() < min_values_of_leaf || others.empty() || hosts.size() < 2 || partners.size() < 2) return std::nullopt;
  const double highest = std::ranges::max(own);
  const auto low =
      static_cast<std::size_t>(std::ranges::count_if(others, [&](double x) { return highest >= gap * x; }));
  const double chance =
      chance_of_lowest(rounds.leaves().size(), own.size(), own.size() + low, own.size() + others.size());
  if (chance > largest_chance) return std::nullopt;
  return median(std::move(own)) / median(std::move(others));
}

/// Adds the slow uplinks and paths of a rail. `between` has the relative rates of each pair of leaf switches.
void find_slow(const PairRounds& rounds, std::size_t rail, std::map<LeafPair, std::vector<double>> between,
               const UsableValues& is_used, LeafPaths& slow) {
  Rates rates;
  std::vector<LeafPair> unproven;
  std::pair<double, LeafPair> lowest{HUGE_VAL, {}};
  double fastest = 0;
  for (const auto& [pair, values] : between) fastest = std::max(fastest, std::ranges::max(values));
  for (auto& [pair, values] : between) {
    lowest = std::min(lowest, {std::ranges::min(values), pair});
    if (values.size() < min_values_of_leaf) {
      if (std::ranges::max(values) < slow_of_few * fastest && !pair.first.empty()) unproven.push_back(pair);
      continue;
    }
    const double x = median(std::move(values));
    rates[pair] = {x, x < pair_limits::slow_rate && rounds.is_below_scatter(x)};
  }
  // A leaf switch whose values are all below the others has the lowest one, unless a pause slowed another one.
  for (const auto& leaf : {lowest.second.first, lowest.second.second}) {
    const auto x = leaf.empty() ? std::nullopt : separate_rate(rounds, rail, leaf, is_used);
    if (!x) continue;
    slow.uplinks[leaf][rail] = *x;
    std::erase_if(rates, [&](const auto& entry) { return touches(entry.first, leaf); });
  }
  // The leaf switch that explains most is first.
  while (const auto leaf = slow_leaf(rates)) {
    std::vector<double> xs;
    for (const auto& [pair, rate] : rates) {
      if (touches(pair, *leaf)) xs.push_back(rate.x);
    }
    // An empty name means hosts whose leaf switch is unknown.
    if (!leaf->empty()) slow.uplinks[*leaf][rail] = median(std::move(xs));
    std::erase_if(rates, [&](const auto& entry) { return touches(entry.first, *leaf); });
  }
  for (const auto& [pair, rate] : rates) {
    if (pair.first.empty()) continue;
    if (rate.is_slow) slow.paths.push_back({pair, rail, rate.x});
    if (!rate.is_slow && rate.x < pair_limits::slow_rate) ++slow.scattered;
  }
  const auto is_explained = [&](const std::string& leaf) {
    return slow.uplinks.contains(leaf) && slow.uplinks.at(leaf).contains(rail);
  };
  for (const LeafPair& pair : unproven) {
    if (!is_explained(pair.first) && !is_explained(pair.second)) ++slow.scattered;
  }
}

}  // namespace

LeafPaths slow_between_leaves(const PairRounds& rounds, const std::set<PairRounds::Place>& explained) {
  const UsableValues is_used{explained};
  std::vector<double> across;  // by rail: values between any two leaf switches
  for (const auto& [place, values] : rounds.at) {
    for (const auto& value : values) {
      if (value.across && is_used(value, place.second)) across.push_back(value.rate);
    }
  }
  const std::size_t leaves = rounds.leaves().size();
  if (across.size() < min_values_of_leaf || leaves < 2) return {};
  // If there are three leaf switches, one bad uplink slows two of three pairs. Therefore the upper quartile is the
  // usual rate.
  const double usual = quantile(std::move(across), leaves > 3 ? 0.5 : 0.75);
  std::vector<std::map<LeafPair, std::vector<double>>> between(rounds.rails);
  for (const auto& [place, values] : rounds.at) {
    for (const auto& value : values) {
      const auto &a = rounds.hosts[place.first].leaf, &b = rounds.hosts[value.partner].leaf;
      if (a < b && is_used(value, place.second)) between[place.second][{a, b}].push_back(value.rate / usual);
    }
  }
  LeafPaths slow;
  for (std::size_t rail = 0; rail < rounds.rails; ++rail)
    find_slow(rounds, rail, std::move(between[rail]), is_used, slow);
  return slow;
}

}  // namespace shakedown
