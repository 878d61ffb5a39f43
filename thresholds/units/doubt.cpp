#include "thresholds/units/doubt.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/key.hpp"
#include "base/statistics.hpp"
#include "thresholds/rules/applicability.hpp"
#include "thresholds/rules/rules.hpp"
#include "thresholds/units/table.hpp"

namespace shakedown {
namespace {

using RowsByKey = std::map<Key, const std::vector<RankData>*>;
using Doubts = std::map<Key, double>;  // by key: the largest shortfall

// For some metrics (raw GEMM, latencies, PCIe with all GPUs at once) the effect among peers is this wide. The limits of
// profiles are narrower.
constexpr double wide_effect = 0.2;

// The bandwidth of NCCL grows with the size, except for steps of some percent where it changes the protocol. In 8
// stored launches of 2 and 4 H200, no size of the quick tier is 10 % slower than a smaller size.
constexpr double min_collective_excess = 0.1;

void add(Doubts& doubts, const Key& key, double shortfall) {
  double& known = doubts[key];
  known = std::max(known, shortfall);
}

// True for rows to which bench/retest.hpp gives a second turn with another key.
bool has_turns(const Key& key) { return key.family() == "jitter" || key.family() == "launch"; }

// Returns the key of all rows that can confirm a value of a GPU or pair. Each shift has other pairs.
Key confirmed_in(const Key& key) {
  if (key.family() != "p2p") return classes_of(key).back();
  return !key.part("shift").empty() && key.part("op") == "latency" ? key : classes_of(key).front();
}

// A value of a GPU, or of a copy between two GPUs.
struct UnitValue {
  Key key;
  std::pair<std::int64_t, std::int64_t> unit;  // the rank, and the local rank of the source or -1
  double value = 0, shortfall = 0;
};

// Returns the row. If ranks or pairs are measured one at a time, returns the rows of all ranks or pairs together.
struct OneRow {
  PeerClass kind;
  std::vector<UnitValue> values;
};
using RowsOfClass = std::map<Key, OneRow>;

// Sets the shortfall of each value from the median. If there are two values, the result is the shortfall from the
// better value.
void compare(const std::string& metric, OneRow& row) {
  const double sign = lower_is_better(metric) ? 1 : -1;
  std::vector<double> sorted;
  for (const UnitValue& v : row.values) sorted.push_back(sign * v.value);
  std::sort(sorted.begin(), sorted.end());
  const double centre = sorted.size() == 2 ? sorted.front() : median(std::move(sorted));
  for (UnitValue& v : row.values) v.shortfall = (sign * v.value - centre) / std::abs(centre);
}

Key key_of_row(const Key& key) { return of_each_rank(key).with("src", "*").with("dst", "*"); }

std::map<ClassMetric, RowsOfClass> rows_by_class(const RowsByKey& measured) {
  std::map<ClassMetric, RowsOfClass> classes;
  for (const auto& [key, repetitions] : measured) {
    const auto source = key.number("src").value_or(-1);
    for (const auto& [metric, values] : repetitions->front().by_rank) {
      const auto kind = peer_class(key, metric);
      if (!kind || has_turns(key) || metric == "capacity_gb") continue;
      OneRow& row = classes[{confirmed_in(key), metric}][key_of_row(key)];
      row.kind = *kind;
      for (std::size_t rank = 0; rank < values.size(); ++rank) {
        if (values[rank]) row.values.push_back({key, {static_cast<std::int64_t>(rank), source}, *values[rank]});
      }
    }
  }
  return classes;
}

void add_peers(const RowsByKey& measured, Doubts& doubts) {
  for (auto& [name, rows] : rows_by_class(measured)) {
    std::erase_if(rows, [](const auto& row) { return row.second.values.size() < 2; });
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<double>> of_unit;
    for (auto& [key, row] : rows) {
      compare(name.metric, row);
      for (const UnitValue& v : row.values) of_unit[v.unit].push_back(v.shortfall);
    }
    for (const auto& [key, row] : rows) {
      for (const UnitValue& v : row.values) {
        // A copy of one pair alone has no other value of its unit.
        const auto& own = of_unit[v.unit];
        const double usual = own.size() == 1 ? 0 : std::max(median(own), 0.0);
        if (v.shortfall - usual > doubtful_shortfall(key, row.kind)) add(doubts, v.key, v.shortfall);
      }
    }
  }
}

// Returns the time of the operation, which is that of its slowest rank.
std::optional<double> seconds_of(const RankData& row) {
  const auto seconds = row.by_rank.find("seconds");
  if (seconds == row.by_rank.end() || seconds->second.size() < 2) return std::nullopt;
  return *std::max_element(seconds->second.begin(), seconds->second.end());  // unknown values are sorted first
}

// Finds a host that takes longer than the other hosts for an operation that each host runs by itself.
void add_hosts(const RowsByKey& measured, Doubts& doubts) {
  for (const auto& [key, repetitions] : measured) {
    const auto slowest = key.part("scope") == "node" ? seconds_of(repetitions->front()) : std::nullopt;
    if (!slowest || !(*slowest > 0)) continue;
    std::vector<double> seconds;
    for (const auto& own : repetitions->front().by_rank.at("seconds")) {
      if (own) seconds.push_back(*own);
    }
    const double shortfall = 1 - median(std::move(seconds)) / *slowest;
    if (shortfall > min_collective_excess) add(doubts, key, shortfall);
  }
}

void add_collectives(const RowsByKey& measured, Doubts& doubts) {
  struct Size {
    double bytes, seconds;
    const Key* key;
  };
  std::map<Key, std::vector<Size>> sweeps;
  for (const auto& [key, repetitions] : measured) {
    const auto bytes = key.number("bytes");
    const auto seconds = seconds_of(repetitions->front());
    if (!is_collective(key.family()) || !bytes || !seconds || !(*seconds > 0)) continue;
    sweeps[key.with("bytes", "*")].push_back({static_cast<double>(*bytes), *seconds, &key});
  }
  for (auto& [name, sizes] : sweeps) {
    std::sort(sizes.begin(), sizes.end(), [](const Size& a, const Size& b) { return a.bytes < b.bytes; });
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      double shortfall = 0;
      if (i + 1 < sizes.size()) shortfall = 1 - sizes[i + 1].seconds / sizes[i].seconds;
      if (i > 0) {
        const double here = sizes[i].bytes / sizes[i].seconds, before = sizes[i - 1].bytes / sizes[i - 1].seconds;
        shortfall = std::max(shortfall, 1 - here / before);
      }
      if (shortfall > min_collective_excess) add(doubts, *sizes[i].key, shortfall);
    }
  }
}

}  // namespace

bool is_long_load(const Key& name) { return name.part("load") == "sustained" || is_training(name.family()); }

std::size_t confirming_repetitions(const Key& key) { return is_long_load(key) ? 2 : enough_repetitions; }

double doubtful_shortfall(const Key& key, const PeerClass& kind) {
  if (kind.effect >= wide_effect) return kind.effect / 2;
  // A healthy GPU with remapped rows reads its memory 2.3 % slower than its peers in every launch.
  return key.family() == "hbm" ? kind.effect : (kind.effect + kind.class_effect) / 2;
}

std::vector<Doubt> rows_in_doubt(const std::map<std::string, std::vector<RankData>>& measured, double at_least) {
  RowsByKey rows;
  for (const auto& [key, repetitions] : measured) rows.emplace(Key(key), &repetitions);
  Doubts doubts;
  add_peers(rows, doubts);
  add_collectives(rows, doubts);
  add_hosts(rows, doubts);
  std::vector<Doubt> once;
  for (const auto& [key, shortfall] : doubts) {
    if (rows.at(key)->size() == 1 && shortfall > at_least) once.push_back({key.text(), shortfall});
  }
  return worst_first(once);
}

std::vector<Doubt> collectives_in_doubt(const Measured& measured, const std::vector<Profile>& profiles,
                                        const Site* site) {
  if (measured.files.empty()) return {};
  const Profile* const ours = select_profile(measured.files, profiles).profile;
  if (ours == nullptr) return {};
  const Profile profile = on_site(*ours, site, measured);
  const FamilySet families{{"allreduce", "collectives"}};
  std::map<std::string, std::map<std::string, double>> missed;  // by scope and key
  for (const Finding& finding : judge_rules(measured, &profile, families, {}, {}, {}).findings) {
    const auto compared = finding.compared();
    if (finding.status != Status::fail || !finding.counts() || !compared) continue;
    const auto found = measured.benchmarks.find(finding.key);
    if (found == measured.benchmarks.end() || found->second.rows.size() > 1) continue;
    const double excess = compared->limit.shortfall(compared->value);
    // The part of a time that is too long, so that rates and times have the same scale.
    const double part = compared->limit.kind == LimitKind::max ? excess / (1 + excess) : excess;
    missed[std::string(finding.key.part("scope"))].emplace(finding.key.text(), part);
  }
  // Two slow collectives of the same ranks confirm each other.
  std::vector<Doubt> once;
  for (const auto& [scope, rows] : missed) {
    if (rows.size() == 1) once.push_back({rows.begin()->first, rows.begin()->second});
  }
  return worst_first(once);
}

std::vector<Doubt> worst_first(const std::vector<Doubt>& doubts) {
  std::map<std::string, double> largest;
  for (const Doubt& doubt : doubts) {
    double& shortfall = largest.emplace(doubt.key, doubt.shortfall).first->second;
    shortfall = std::max(shortfall, doubt.shortfall);
  }
  std::vector<Doubt> sorted;
  for (const auto& [key, shortfall] : largest) sorted.push_back({key, shortfall});
  std::ranges::stable_sort(sorted, std::ranges::greater{}, &Doubt::shortfall);
  return sorted;
}

}  // namespace shakedown
