#include "thresholds/culprits/leaf_paths.hpp"

#include <algorithm>
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

}  // namespace

LeafPaths slow_between_leaves(const PairRounds& rounds, const std::set<PairRounds::Place>& explained) {
  const auto is_used = [&](const PairRounds::Value& value, std::size_t rail) {
    return !value.confirms && !explained.contains({value.host, rail}) && !explained.contains({value.partner, rail});
  };
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
  for (std::size_t rail = 0; rail < rounds.rails; ++rail) {
    Rates rates;
    for (auto& [pair, values] : between[rail]) {
      if (values.size() < min_values_of_leaf) continue;
      const double x = median(std::move(values));
      rates[pair] = {x, x < pair_limits::slow_rate && rounds.is_below_scatter(x)};
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
  }
  return slow;
}

}  // namespace shakedown
