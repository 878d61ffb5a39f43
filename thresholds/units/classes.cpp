// Decides who stands out in a class; docs/verdict.md has the rates.
//
// Of a class with the shortfalls v of N GPUs (or links), one stands out if v - centre exceeds
//   max(effect, 6 s, min(4 g, t s))
// - effect: what is worth a person's time: 1.2 % where several rows agree, else that of the metric;
// - s: 1.4826 times the median distance of the better half from the centre, put together with what is known of such
//   chips, which counts like eight GPUs: a few cannot tell their own spread. Of two or three GPUs it is sqrt(2) times
//   what is known, since one healthy GPU is all that the other is compared with;
// - t: how many s the worst of N lies from the centre where tails are as heavy as those of chips, in all but 1 % of
//   fleets, above 64 GPUs 0.4 % (thresholds/units/chip_variation.hpp): it grows with N, as the number of comparisons
//   does. s holds the noise of rows, too, whose tails are lighter: so it is half of that;
// - g: how far the best is from the centre. Hardware does not become faster by a fault, so the good side shows whether
//   tails are that heavy here: of such tails the worst of any number lies beyond 4 times the best in 1 / (1 + 4^5)
//   = 0.1 % of fleets. Where they are lighter, it keeps the limit low.
// A chip that only power holds back is slow and not at fault, as far as healthy chips are behind.
#include "thresholds/units/classes.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/statistics.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/rules/profile.hpp"
#include "thresholds/units/chip_variation.hpp"
#include "thresholds/units/doubt.hpp"

namespace shakedown {
namespace {

constexpr double sigmas = 6, of_the_best = 4, known_counts_like = 8;
constexpr std::size_t few = 3;

// The part of fleets with a healthy GPU beyond. A node or eight of them are to show a fault of 2 %.
double alpha(std::size_t units) { return units <= 64 ? 0.01 : 0.004; }

using Unit = PeerGroup::Unit;

// Hardware does not become faster by a fault. A GPU with bad ports slows most of the copies of a small host, so that
// the better quarter of copies is what the others are compared with.
double centre_of(const std::vector<double>& sorted, bool links) {
  if (sorted.size() == 2) return sorted.front();
  return links ? sorted[(sorted.size() - 1) / 4] : median(sorted);
}

// What is known of the median over so many rows, whose variance is pi / 2 times that of the mean.
double known_spread(const PeerGroup& group) {
  const auto rows = static_cast<double>(group.units.front().rows);
  const double of_rows = group.kind.row * group.kind.row * (rows > 1 ? 1.57 / rows : 1);
  return std::sqrt(group.kind.spread * group.kind.spread + of_rows);
}

/// What classes of one family, metric and number of rows show together: the types of GEMM, the directions of HBM.
struct Seen {
  double variances = 0, units = 0;  // variance times units, and units
};
using SeenTogether = std::map<std::tuple<std::string, std::string, std::string, std::size_t>, Seen>;

Seen& seen_of(SeenTogether& together, const PeerGroup& group) {
  return together[{group.name.family(), group.metric, group.device, group.units.front().rows}];
}

// The standard deviation that the shortest half of the values shows: of two groups, that of the closer one.
double spread_of_shortest_half(const std::vector<double>& sorted) {
  const std::size_t half = sorted.size() / 2;
  double width = HUGE_VAL;
  for (std::size_t i = 0; i + half <= sorted.size(); ++i) width = std::min(width, sorted[i + half - 1] - sorted[i]);
  return 0.7413 * width;  // of a normal distribution, half of the values are within 1.349 standard deviations
}

// Of the better half: hardware does not become faster by a fault. Two groups of healthy GPUs, such as two makes of
// memory, are wider together than either is.
double spread_of_healthy(const std::vector<double>& sorted, double centre) {
  std::vector<double> better;
  for (const double v : sorted) {
    if (v <= centre) better.push_back(centre - v);
  }
  const double sigma = 1.4826 * median(std::move(better));
  constexpr std::size_t enough = 8;
  if (sorted.size() < enough) return sigma;
  constexpr double two_groups = 2;
  const double of_half = spread_of_shortest_half(sorted);
  return sigma > two_groups * of_half ? of_half : sigma;
}

/// Centres the shortfalls, and leaves how far the best is from the centre in group.limit.
void measure(PeerGroup& group, SeenTogether& together) {
  std::vector<double> sorted;
  sorted.reserve(group.units.size());
  for (const Unit& unit : group.units) sorted.push_back(unit.shortfall);
  std::sort(sorted.begin(), sorted.end());
  const bool links = group.units.front().from.has_value();
  // Half of the links are slow where a GPU of four has bad ports, and more where half of the GPUs are slow themselves.
  if (group.name.family() != "p2p") sorted.resize(better_group(sorted, group.kind.class_effect));
  const double centre = centre_of(sorted, links);
  for (Unit& unit : group.units) unit.shortfall -= centre;
  if (group.units.size() <= few) return;
  group.limit = centre - sorted.front();
  const double s = spread_of_healthy(sorted, centre);
  Seen& seen = seen_of(together, group);
  seen.variances += s * s * static_cast<double>(sorted.size());
  seen.units += static_cast<double>(sorted.size());
}

void limit(PeerGroup& group, SeenTogether& together) {
  const double known = known_spread(group);
  const Seen seen = seen_of(together, group);
  group.scale =
      group.units.size() <= few
          ? std::sqrt(2.0) * known
          : std::sqrt((known_counts_like * known * known + seen.variances) / (known_counts_like + seen.units));
  const double heavy = std::max(sigmas, worst_of(group.units.size(), alpha(group.units.size())));
  group.limit = std::clamp(of_the_best * group.limit, sigmas * group.scale, heavy * group.scale);
}

// What most rows agree on: the lower median, of two rows the better one.
void add_unit(PeerGroup& group, std::vector<double>& shortfalls, int rank, std::optional<int> from, bool repeated) {
  const auto middle = shortfalls.begin() + static_cast<std::ptrdiff_t>((shortfalls.size() - 1) / 2);
  std::nth_element(shortfalls.begin(), middle, shortfalls.end());
  group.units.push_back({rank, from, *middle, shortfalls.size(), repeated, false});
  shortfalls.clear();
}

bool is_repeated(const PeerValue& value) { return value.repetitions >= enough_repetitions; }

void fill(PeerGroup& group, const std::vector<Comparison>& comparisons) {
  struct Value {
    int rank, from;
    double shortfall;
    bool repeated;
  };
  const auto unit = [&](const PeerValue& v) { return unit_of(group.name, v.rank, v.from); };
  // In the order of ranks by counting: of 10,000 GPUs there are a million.
  std::vector<std::size_t> at(group.context->ranks.size() + 1);
  for (const std::size_t row : group.rows) {
    for (const PeerValue& v : comparisons[row].values) ++at[static_cast<std::size_t>(unit(v).rank) + 1];
  }
  std::partial_sum(at.begin(), at.end(), at.begin());
  std::vector<Value> values(at.back());
  auto next = at;
  for (const std::size_t row : group.rows) {
    for (const PeerValue& v : comparisons[row].values) {
      const ClassUnit of = unit(v);
      values[next[static_cast<std::size_t>(of.rank)]++] = {of.rank, of.from.value_or(-1), v.shortfall, is_repeated(v)};
    }
  }
  for (std::size_t rank = 0; rank + 1 < at.size(); ++rank) {
    std::sort(values.begin() + static_cast<std::ptrdiff_t>(at[rank]),
              values.begin() + static_cast<std::ptrdiff_t>(at[rank + 1]),
              [](const Value& a, const Value& b) { return a.from < b.from; });
  }
  std::vector<double> shortfalls;
  for (std::size_t i = 0; i < values.size(); ++i) {
    shortfalls.push_back(values[i].shortfall);
    const bool last =
        i + 1 == values.size() || values[i + 1].rank != values[i].rank || values[i + 1].from != values[i].from;
    if (!last) continue;
    const auto from = values[i].from < 0 ? std::nullopt : std::optional(values[i].from);
    add_unit(group, shortfalls, values[i].rank, from, values[i].repeated);
  }
}

// Of copies by the GPU at one end.
std::string_view end_of(const PeerGroup& group) { return group.name.part("end"); }

class Groups {
 public:
  Groups(PeerComparison& peers, const RankTelemetry& telemetry) : peers_(peers), telemetry_(telemetry) {}

  void judge() {
    collect();
    SeenTogether together;
    for (PeerGroup& group : peers_.groups) fill(group, peers_.comparisons);
    // Of two GPUs all that one sends is one link, and a class of its own.
    std::erase_if(peers_.groups,
                  [](const PeerGroup& group) { return !end_of(group).empty() && group.units.front().rows == 1; });
    for (PeerGroup& group : peers_.groups) measure(group, together);
    for (PeerGroup& group : peers_.groups) {
      limit(group, together);
      mark(group);
    }
  }

 private:
  void collect() {
    std::map<std::tuple<Key, std::string, std::string, int>, std::size_t> index;
    for (std::size_t row = 0; row < peers_.comparisons.size(); ++row) {
      const Comparison& c = peers_.comparisons[row];
      auto names = classes_of(c.key);
      // A row that was repeated confirms itself: it is a class of its own.
      const bool repeated = std::any_of(c.values.begin(), c.values.end(), is_repeated);
      if (repeated && std::find(names.begin(), names.end(), c.key) == names.end()) names.push_back(c.key);
      for (const Key& name : names) {
        const auto [found, fresh] =
            index.emplace(std::tuple(name, c.metric, c.device, c.context->world_size), peers_.groups.size());
        if (fresh) peers_.groups.push_back({name, c.metric, c.device, c.kind, c.context, 0, 0, {}, {}});
        peers_.groups[found->second].rows.push_back(row);
      }
    }
    // A class of all rows of the wider one is that.
    std::set<std::pair<std::string, std::vector<std::size_t>>> seen;
    std::erase_if(peers_.groups, [&](const PeerGroup& g) { return !seen.emplace(end_of(g), g.rows).second; });
  }

  // A lower limit only where several rows agree: never because a row was measured more often, for whomever that was.
  double limit_of(const PeerGroup& group, const Unit& unit) const {
    const bool few_rows = !group.name.part("engine").empty();  // two of three may be off by accident
    return std::max(group.limit, unit.rows > 1 && !few_rows ? group.kind.class_effect : group.kind.effect);
  }

  bool is_slow_silicon(const PeerGroup& group, const Unit& unit) const {
    if (!group.kind.clocked) return false;
    const double slower = lower_is_better(group.metric) ? unit.shortfall / (1 + unit.shortfall) : unit.shortfall;
    return slower <= slowest_of(group.units.size(), true) && telemetry_.power_limited(unit.rank);
  }

  void mark(PeerGroup& group) {
    std::map<ClassUnit, bool> out;  // who stands out, and whether that counts
    double limit = limit_of(group, group.units.front());
    for (Unit& unit : group.units) {
      limit = limit_of(group, unit);
      if (unit.shortfall <= limit || is_slow_silicon(group, unit)) continue;
      unit.out = unit.rows > 1 || unit.repeated || !is_brief(group.name, group.metric);
      out.emplace(ClassUnit{unit.rank, unit.from}, unit.out);
    }
    group.limit = limit;
    for (const std::size_t row : group.rows) {
      Comparison& c = peers_.comparisons[row];
      if (c.limit == 0 || !out.empty()) {
        c.limit = limit;
        c.scale = group.scale;
      }
      if (out.empty()) continue;
      for (PeerValue& v : c.values) {
        const auto found = out.find(unit_of(group.name, v.rank, v.from));
        if (found == out.end() || v.shortfall <= limit / 2) continue;
        (found->second ? v.out : v.noted) = true;
      }
    }
  }

  PeerComparison& peers_;
  const RankTelemetry& telemetry_;
};

}  // namespace

std::vector<Key> classes_of(const Key& key) {
  const Key family(key.family());
  // The class of the rows that have the same values of these parts.
  const auto by = [&](std::initializer_list<std::string_view> parts) {
    Key name = family;
    for (const std::string_view part : parts) name.set(part, key.part(part));
    return name;
  };
  if (family == "gemm" && key.part("load") == "sustained") return {by({"load"})};  // bursts show no heat
  if (family == "gemm") return {family, by({"dtype"})};
  if (family == "hbm") return {family, by({"op"}), by({"op", "engine"})};
  if (family == "p2p" && key.part("op") == "latency") return {by({"op"})};
  if (family == "p2p" && key.part("dir") == "both") return {by({"dir"})};
  if (family == "p2p") {
    const Key engine = by({"op", "engine"});
    return {family, Key(engine).set("end", "src"), Key(engine).set("end", "dst")};
  }
  if (family == "pcie" && key.part("active") == "one") return {by({"active"}), by({"active", "op"})};
  if (family == "pcie") return {family, by({"op"})};
  if (key.part("scope") == "node") return {by({"scope"})};
  return {family};
}

Key of_each_rank(const Key& key) { return key.part("active") == "one" ? key.with("rank", "*") : key; }

std::size_t better_group(const std::vector<double>& sorted, double effect) {
  for (std::size_t n = 2; 2 * n <= sorted.size(); ++n) {
    const double apart = sorted[n] - sorted[n - 1];
    if (apart > std::max({effect, sorted[n - 1] - sorted.front(), sorted.back() - sorted[n]})) return n;
  }
  return sorted.size();
}

ClassUnit unit_of(const Key& name, int rank, std::optional<int> from) {
  const auto end = name.part("end");
  if (!from || end.empty()) return {rank, from};
  return {end == "src" ? *from : rank, std::nullopt};
}

void judge_groups(PeerComparison& peers, const RankTelemetry& telemetry) { Groups(peers, telemetry).judge(); }

}  // namespace shakedown
