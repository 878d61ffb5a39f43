#include "thresholds/culprits/pair_rounds.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <tuple>

#include "base/statistics.hpp"
#include "thresholds/catalogue/pair_limits.hpp"

namespace shakedown {

namespace {

using pair_limits::slow_rate;

double standard_deviation(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  const double squares = std::accumulate(values.begin(), values.end(), 0.0, [&](double sum, double value) {
    return sum + (value - mean) * (value - mean);
  });
  return count < 2 ? 0 : std::sqrt(squares / (count - 1));
}

}  // namespace

RailRates rates_of_rail(const std::vector<Exchange>& exchanges) {
  std::map<std::size_t, double> best;  // by host: its best rate
  for (const Exchange& had : exchanges) {
    if (had.rate > 0) best[had.host] = std::max(best[had.host], had.rate);
  }
  if (best.empty()) return {};
  std::vector<double> bests, good;
  for (const auto& [host, rate] : best) bests.push_back(rate);
  RailRates rates;
  rates.best = rates.usual = median(std::move(bests));
  const auto is_good = [&](std::size_t host) { return best.contains(host) && best[host] >= slow_rate * rates.best; };
  for (const Exchange& had : exchanges) {
    if (had.rate > 0 && is_good(had.host) && is_good(had.partner)) good.push_back(had.rate);
  }
  if (!good.empty()) rates.usual = median(std::move(good));
  rates.best = std::max(rates.best, rates.usual);
  return rates;
}

PairRounds::PairRounds(const Benchmarks& benchmarks, const std::map<std::string, std::string>& leaves, PairRate rate) {
  for (const auto& [key, benchmark] : benchmarks) {
    if (key.family() != "pairs") continue;
    context = benchmark.context;
    if (benchmark.waiver() == nullptr) rows.push_back(&benchmark);
  }
  if (context == nullptr) return;
  read_hosts(leaves);
  read_values(rate);
}

void PairRounds::read_hosts(const std::map<std::string, std::string>& leaves) {
  std::map<std::string, std::size_t> index;
  for (const RankFacts& rank : context->ranks) {
    const auto [found, fresh] = index.emplace(rank.host, hosts.size());
    if (fresh) hosts.push_back({rank.host, "", {}});
    host_of_.push_back(found->second);
    rail_of_.push_back(static_cast<std::size_t>(rank.local_rank));
    auto& ranks = hosts[found->second].ranks;
    ranks.resize(std::max(ranks.size(), rail_of_.back() + 1), -1);
    ranks[rail_of_.back()] = rank.rank;
    rails = std::max(rails, rail_of_.back() + 1);
  }
  for (const HostFacts& facts : context->inventory) {
    const auto found = index.find(facts.host);
    if (found == index.end()) continue;
    const auto said = leaves.find(facts.host);
    hosts[found->second].leaf = facts.leaf.value_or(said == leaves.end() ? "" : said->second);
  }
}

void PairRounds::read_values(PairRate rate) {
  constexpr double max_wait = 0.99;  // a longer wait leaves too little time for a rate
  for (const Benchmark* benchmark : rows) {
    const auto values = rank_values(*benchmark, metric), partners = rank_values(*benchmark, "partner"),
               waits = rank_values(*benchmark, "waited");
    if (partners.size() != host_of_.size()) continue;
    const auto direction = benchmark->key.part("dir");
    const bool confirms = !benchmark->key.part("confirm").empty();
    for (std::size_t rank = 0; rank < partners.size(); ++rank) {
      if (!partners[rank] || *partners[rank] < 0 || *partners[rank] >= static_cast<double>(host_of_.size())) continue;
      Value value;
      value.host = host_of_[rank];
      value.partner = host_of_[static_cast<std::size_t>(*partners[rank])];
      value.rate = rank < values.size() ? values[rank].value_or(0) : 0;
      const double wait = rank < waits.size() ? waits[rank].value_or(0) : 0;
      longest_wait_ = std::max(longest_wait_, wait);
      if (rate == PairRate::per_core_time) value.rate /= 1 - std::clamp(wait, 0.0, max_wait);
      value.key = &benchmark->key;
      value.across = !same_leaf(value.host, value.partner);
      value.confirms = confirms;
      if (benchmark->key.part("op") == "allreduce") {
        auto& same = sums[std::minmax(value.host, value.partner)];
        const bool known =
            std::any_of(same.begin(), same.end(), [&](const Sum& sum) { return sum.key == benchmark->key; });
        if (!known) same.push_back({benchmark->key, value.rate, confirms});
        continue;
      }
      const Place place{value.host, rail_of_[rank]};
      if (direction == "out") out_rate_[place].push_back(value.rate);
      if (direction == "in") in_rate_[place].push_back(value.rate);
      if (direction.empty() || direction == "both") at[place].push_back(value);
    }
  }
  std::vector<std::vector<Exchange>> of_rail(rails);
  for (const auto& [place, values] : at)
    of_rail[place.second].insert(of_rail[place.second].end(), values.begin(), values.end());
  for (const auto& exchanges : of_rail) {
    const RailRates rates = rates_of_rail(exchanges);
    reference.push_back(rates.best);
    typical.push_back(rates.usual);
  }
  for (auto& [place, values] : at) {
    for (Value& value : values) value.x = reference[place.second] > 0 ? value.rate / reference[place.second] : 0;
  }
  for (const auto& [place, values] : at) {
    for (const Value& value : values) {
      if (place.first < value.partner && !value.across && !value.confirms && value.rate > 0)
        inside_.push_back(value.rate / typical[place.second]);
    }
  }
  std::sort(inside_.begin(), inside_.end());
  read_scatter();
}

/// Uses the rounds inside leaf switches if there are enough, because a slow uplink is not scatter. If there are too
/// few, adds those between leaf switches; each path with enough values is compared with its own median. Omits the
/// lowest tenth, which may be of a slow path, or of pairs that share a spine port by chance.
void PairRounds::read_scatter() {
  constexpr std::size_t values_per_omission = 10, min_inside = 10, min_of_path = 6;
  std::vector<double> inside, all;
  std::map<std::tuple<std::size_t, std::string, std::string>, std::vector<double>> paths;  // by rail and two leaves
  for (const auto& [place, values] : at) {
    for (const Value& value : values) {
      const bool is_second_end = !value.confirms && place.first > value.partner;
      const double slower_end = std::min(best_rate(place), best_rate({value.partner, place.second}));
      if (is_second_end || value.rate <= 0 || slower_end <= 0) continue;
      const double logarithm = std::log(value.rate / std::min(slower_end, reference[place.second]));
      if (!value.across) inside.push_back(logarithm);
      const auto& [a, b] = std::minmax(hosts[value.host].leaf, hosts[value.partner].leaf);
      auto& group = !value.across || a.empty() ? all : paths[{place.second, a, b}];
      group.push_back(logarithm);
    }
  }
  for (const auto& [path, values] : paths) {
    const double slower = values.size() < min_of_path ? 0 : std::min(0.0, median(values));
    for (const double value : values) all.push_back(value - slower);
  }
  auto& logarithms = inside.size() < min_inside ? all : inside;
  std::sort(logarithms.begin(), logarithms.end());
  logarithms.erase(logarithms.begin(),
                   logarithms.begin() + static_cast<std::ptrdiff_t>(logarithms.size() / values_per_omission));
  scatter_ = standard_deviation(logarithms);
}

std::vector<PairRounds::Place> PairRounds::unseen() const {
  // A row with an error has no values. The error has a finding of its own.
  if (hosts.size() < 2 || std::ranges::any_of(rows, [](const Benchmark* row) { return row->error() != nullptr; })) {
    return {};
  }
  std::vector<std::set<std::size_t>> met(hosts.size());
  for (const auto& [place, values] : at) {
    for (const Value& value : values) met[place.first].insert(value.partner);
  }
  std::vector<Place> places;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    for (std::size_t rail = 0; rail < rails; ++rail) {
      if (!has(host, rail) || at.contains({host, rail})) continue;
      const bool could = std::ranges::any_of(met[host], [&](std::size_t partner) { return has(partner, rail); });
      if (could || met[host].empty()) places.push_back({host, rail});
    }
  }
  return places;
}

std::map<std::string, std::vector<std::size_t>> PairRounds::leaves() const {
  std::map<std::string, std::vector<std::size_t>> leaves;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    if (!hosts[host].leaf.empty()) leaves[hosts[host].leaf].push_back(host);
  }
  return leaves;
}

bool PairRounds::has(std::size_t host, std::size_t rail) const {
  return rail < hosts[host].ranks.size() && hosts[host].ranks[rail] >= 0;
}

const RankFacts& PairRounds::facts(const Place& place) const {
  return context->ranks[static_cast<std::size_t>(hosts[place.first].ranks[place.second])];
}

double PairRounds::best_rate(const Place& place) const {
  double best = 0;
  const auto found = at.find(place);
  if (found == at.end()) return 0;
  for (const Value& value : found->second) best = std::max(best, value.rate);
  return best;
}

std::optional<double> PairRounds::best(const Place& place) const {
  const auto found = at.find(place);
  if (found == at.end() || reference[place.second] <= 0) return std::nullopt;
  return best_rate(place) / reference[place.second];
}

bool PairRounds::low(const Place& place) const {
  const auto x = best(place);
  return x && *x < slow_rate && is_below_scatter(*x);
}

bool PairRounds::is_below_scatter(double x) const {
  constexpr double deviations = 3;
  return x <= 0 || -std::log(x) > deviations * scatter_;
}

std::size_t PairRounds::count_within_scatter() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      at, [&](const auto& entry) { return best(entry.first).value_or(1) < slow_rate && !low(entry.first); }));
}

PairRounds::SameRounds PairRounds::same_rounds(std::size_t rail) const {
  SameRounds same;
  std::vector<std::vector<double>> bests(rails);  // by rail: the best rate of each host
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    const auto own = at.find({host, rail});
    if (own == at.end() || low({host, rail})) continue;
    std::set<Key> rounds;
    for (const Value& value : own->second) {
      if (!low({value.partner, rail})) rounds.insert(*value.key);
    }
    same.rounds = std::max(same.rounds, rounds.size());
    for (std::size_t other = 0; other < rails; ++other) {
      const auto found = at.find({host, other});
      if (found == at.end()) continue;
      double best = 0;
      for (const Value& value : found->second) {
        if (rounds.contains(*value.key)) best = std::max(best, value.rate);
      }
      if (best > 0) bests[other].push_back(best);
    }
  }
  for (auto& of_hosts : bests) same.rates.push_back(of_hosts.empty() ? 0 : median(std::move(of_hosts)));
  return same;
}

bool PairRounds::fell_silent(std::size_t host) const {
  std::size_t silent = 0, all = 0;
  std::set<std::size_t> partners;
  for (std::size_t rail = 0; rail < rails; ++rail) {
    const auto found = at.find({host, rail});
    if (found == at.end()) continue;
    for (const Value& value : found->second) {
      ++all;
      if (value.rate > 0) continue;
      ++silent;
      partners.insert(value.partner);
    }
  }
  return partners.size() > 1 && 2 * silent >= all;
}

std::string PairRounds::way_of(const std::vector<Place>& places) const {
  std::vector<double> ratio;
  for (const Place& place : places) {
    const auto out = out_rate_.find(place), in = in_rate_.find(place);
    if (out == out_rate_.end() || in == in_rate_.end()) continue;
    const double sent = *std::max_element(out->second.begin(), out->second.end());
    const double received = *std::max_element(in->second.begin(), in->second.end());
    if (received > 0 && sent > 0) ratio.push_back(sent / received);
  }
  if (ratio.empty()) return "";
  const double middle = median(std::move(ratio));
  return middle < slow_rate ? ", sending only" : middle > 1 / slow_rate ? ", receiving only" : ", both ways";
}

std::vector<const PairRounds::Value*> PairRounds::again(std::size_t host, std::size_t partner, std::size_t rail) const {
  std::vector<const Value*> again;
  const auto found = at.find({host, rail});
  if (found == at.end()) return again;
  for (const Value& value : found->second) {
    if (value.confirms && value.partner == partner) again.push_back(&value);
  }
  return again;
}

std::optional<double> PairRounds::repeated(const Value& value, std::size_t rail) const {
  std::optional<double> best;
  for (const auto& [host, partner] : {Pair{value.host, value.partner}, Pair{value.partner, value.host}}) {
    for (const Value* const other : again(host, partner, rail)) {
      best = std::max(best.value_or(0), other->rate / typical[rail]);
    }
  }
  return best;
}

bool PairRounds::by_chance(const Value& value, std::size_t rail, double repeated) const {
  constexpr double max_chance = 0.001;              // fraction of networks that have such a pair by chance
  constexpr double prior = 0.01, prior_values = 5;  // the assumption if there are few values
  const double x = std::max(repeated, value.rate / typical[rail]), count = static_cast<double>(inside_.size());
  const auto below = std::lower_bound(inside_.begin(), inside_.end(), x) - inside_.begin();
  const auto others = std::max(0.0, static_cast<double>(below) - 1);  // this value does not confirm itself
  const double part = (others + prior * prior_values) / (count + prior_values);
  const auto rounds = 1 + again(value.host, value.partner, rail).size();
  return count * std::pow(part, static_cast<double>(rounds)) > max_chance;
}

}  // namespace shakedown
