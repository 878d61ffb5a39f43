// Decides how far each value and each host falls short of its peers. One-sided: a fast unit is never named.
//
// A GPU or link is judged by all rows of a class together: thresholds/units/unit.cpp. A host stands out if the rate
// of its better ranks falls short of the median of the hosts by more than
//   max(effect, z * max(1.4826 MAD, tail, spread)),   z = the normal quantile at alpha / (values compared in the run).
// MAD and median: Rousseeuw and Croux 1993 (a factor 1.4826 makes the MAD of a normal distribution its standard
// deviation). The division is Bonferroni's: 10,000 GPUs x 60 benchmarks are 600,000 chances of a false alarm.
#include "thresholds/units/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <tuple>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "base/threads.hpp"
#include "thresholds/results/hosts.hpp"
#include "thresholds/units/classes.hpp"
#include "thresholds/units/doubt.hpp"
#include "thresholds/units/healthy.hpp"
#include "thresholds/units/populations.hpp"

namespace shakedown {
namespace {

// The probability that a healthy run of any size has an alarm, if its noise is normal.
constexpr double alpha = 1e-3;

// Counts of a value are bytes, because 10,000 GPUs have a million values.
constexpr int max_counted = std::numeric_limits<std::uint8_t>::max();

// Among 64 or more values, the healthy side shows how heavy the tails are: in a normal distribution its 99 % quantile
// is 2.326 sigma. With fewer values, a single fast one would determine it.
constexpr std::size_t enough_for_tail = 64;
constexpr double tail_share = 0.99, tail_sigmas = 2.3263;

// From this number of hosts on, each pair of local ranks is compared with the same pair of other hosts. With fewer
// hosts, all pairs of a host are compared with each other; through an NVSwitch they are equivalent.
constexpr std::size_t enough_hosts = 16;

// Independent deviations of the ranks of a host average out in its median. Deviations that all ranks share do not.
constexpr double host_share = 0.6;
constexpr double host_effect_clocked = 0.1;

// ---------------------------------------------------------------------------------------------------------------------
// Centre, scale and limits

// Returns the value below which this fraction of the values is. Reorders the values.
double value_at(std::vector<double>& values, double share) {
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

struct Spread {
  double centre, scale;
};

// Returns the median; of two values, the better value, because a fault never makes hardware faster.
double centre_of(const std::vector<double>& values, bool low_is_good) {
  if (values.size() != 2) return median(values);
  return low_is_good ? std::min(values[0], values[1]) : std::max(values[0], values[1]);
}

Spread spread_of(const std::vector<double>& values, bool low_is_good, double least) {
  const double centre = centre_of(values, low_is_good);
  if (values.size() == 2) return {centre, least};
  double sigma = robust_sigma(values);
  if (values.size() >= enough_for_tail) {
    std::vector<double> good_side;
    for (const double value : values) good_side.push_back(low_is_good ? centre - value : value - centre);
    sigma = std::max(sigma, value_at(good_side, tail_share) / tail_sigmas);
  }
  return {centre, std::max(least, centre > 0 ? sigma / centre : 0)};
}

double shortfall_of(double value, double centre, bool low_is_good) {
  if (!(centre > 0)) return 0;
  return low_is_good ? value / centre - 1 : 1 - value / centre;
}

// Returns the median of all values. If at least half of the GPUs are slow, returns the median of the other GPUs.
double healthy_centre(std::vector<double> values, bool low_is_good, double effect) {
  const double centre = centre_of(values, low_is_good);
  std::sort(values.begin(), values.end());
  if (!low_is_good) std::reverse(values.begin(), values.end());
  std::vector<double> shortfalls;
  shortfalls.reserve(values.size());
  for (const double value : values) shortfalls.push_back(shortfall_of(value, centre, low_is_good));
  const std::size_t healthy = better_group(shortfalls, effect);
  if (healthy == values.size()) return centre;
  values.resize(healthy);
  return centre_of(values, low_is_good);
}

void measure_values(Comparison& comparison) {
  const bool low_is_good = lower_is_better(comparison.metric);
  std::vector<double> values;
  values.reserve(comparison.values.size());
  for (const PeerValue& v : comparison.values) values.push_back(v.value);
  // If half of the GPUs are slow, or one of four, then half of the links are slow. Classes therefore compare links with
  // the best quarter.
  const bool links = comparison.values.front().unit.kind == UnitKind::link;
  comparison.centre = links ? centre_of(values, low_is_good)
                            : healthy_centre(std::move(values), low_is_good, comparison.kind.class_effect);
  for (PeerValue& v : comparison.values) {
    v.shortfall = shortfall_of(v.value, comparison.centre, low_is_good);
    // If one of three repetitions is nearly normal, a large shortfall of the median is a matter of chance. The median
    // of two is their mean, so then any shortfall is.
    const double best = v.value * (1 + (low_is_good ? -0.01 : 0.01) * v.gain);
    const bool nearly_normal = shortfall_of(best, comparison.centre, low_is_good) < v.shortfall / 2;
    const bool is_large = v.shortfall >= open_shortfall || v.repetitions == 2;
    const bool is_few = v.repetitions >= confirming_repetitions(comparison.key) && v.repetitions <= enough_repetitions;
    if (is_few && is_large && nearly_normal) v.repetitions = 1;
  }
}

// Returns the value that the best quarter reaches. A slow GPU slows half of the copies of a host with four GPUs, but
// that host is not slow.
double good_quarter(std::vector<double>& values, bool low_is_good) {
  const double share = values.size() < 4 ? 1 : 0.75;
  return value_at(values, low_is_good ? 1 - share : share);
}

// False for pairs that were measured because they were slow in another row, because these do not represent their host.
bool is_sample(const Comparison& comparison, const std::vector<std::vector<double>>& by_host) {
  if (comparison.values.front().unit.kind != UnitKind::link) return true;
  const std::size_t directions = comparison.key.part("dir") == "both" ? 1 : 2;
  const std::size_t ranks = comparison.context->ranks.size() / by_host.size();
  return comparison.values.size() >= by_host.size() * ranks * (ranks - 1) * directions / 2 ||
         !comparison.key.part("shift").empty();
}

// Compares hosts. If a host has several ranks, it is compared by the rate of its better ranks.
void measure_hosts(Comparison& comparison, const Hosts& hosts) {
  if (hosts.count() < 2) return;
  const bool low_is_good = lower_is_better(comparison.metric);
  std::vector<std::vector<double>> by_host(hosts.count());
  std::vector<int> first(hosts.count());
  for (const PeerValue& v : comparison.values) {
    by_host[hosts.host_of(v.unit.rank)].push_back(v.value);
    first[hosts.host_of(v.unit.rank)] = v.unit.rank;
  }
  if (!is_sample(comparison, by_host)) return;
  std::vector<double> medians;
  for (std::size_t host = 0; host < by_host.size(); ++host) {
    if (by_host[host].size() < 2) continue;
    PeerHost entry;
    entry.host = comparison.context->ranks[static_cast<std::size_t>(first[host])].host;
    entry.value = good_quarter(by_host[host], low_is_good);
    medians.push_back(entry.value);
    comparison.hosts.push_back(std::move(entry));
  }
  if (medians.size() < 2) {
    comparison.hosts.clear();
    return;
  }
  const Spread spread = spread_of(medians, low_is_good, host_share * comparison.kind.spread);
  comparison.host_scale = spread.scale;
  for (PeerHost& host : comparison.hosts) host.shortfall = shortfall_of(host.value, spread.centre, low_is_good);
}

// ---------------------------------------------------------------------------------------------------------------------
// Which values are compared with each other

class Collector {
 public:
  explicit Collector(double launches) : launches_(launches) {}

  UnitTable collect(const Benchmarks& benchmarks, const FamilySet& families) {
    for (const auto& [key, benchmark] : benchmarks) {
      if (!families.contains(key.family())) continue;
      if (benchmark.error() != nullptr || benchmark.waiver() != nullptr) continue;
      table_.ranks = std::max(table_.ranks, benchmark.context->world_size);
      table_.counts = table_.counts && benchmark.context->backend != Backend::host;
      for (const Metric& metric : metrics()) {
        if (!metric.peers || !metric.is_of(key.family())) continue;
        if (find_metric(key, metric.name) == &metric) add(benchmark, metric);
      }
    }
    for (Comparison& comparison : table_.comparisons) comparison.values.shrink_to_fit();
    table_.telemetry = RankTelemetry(benchmarks);
    return std::move(table_);
  }

 private:
  void add(const Benchmark& benchmark, const Metric& row) {
    const std::string metric(row.name);
    const auto values = rank_values(benchmark, metric);
    if (values.empty()) return;
    const Context& context = *benchmark.context;
    const Hosts& hosts = hosts_.of(context);
    const Key key = pooled_key(benchmark.key, hosts);
    const bool per_host = key.part("scope") == "node";
    const auto sources = hosts.sources(benchmark.key);
    std::set<std::size_t> seen;  // hosts that were added; the ranks of a host share one value
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!values[i] || !std::isfinite(*values[i])) continue;
      const RankFacts& facts = context.ranks[i];
      const auto from = sources.of(facts);
      if (from == facts.rank) continue;  // the value of both directions is at both ends, and one of them is enough
      if (per_host && !seen.insert(hosts.host_of(facts.rank)).second) continue;
      Comparison& comparison = comparison_of(key, metric, facts.device);
      if (comparison.values.empty()) {
        comparison.kind = *row.peers;
        comparison.kind.effect += launches_;
        comparison.kind.class_effect += launches_;
        comparison.example = benchmark.key;
        comparison.context = &context;
      }
      if (comparison.context != &context && comparison.context->world_size != context.world_size) continue;
      comparison.values.push_back({.unit = unit_at(facts.rank, from),
                                   .repetitions = repetitions_of(benchmark, metric, i),
                                   .gain = gain_of(benchmark, metric, i, *values[i]),
                                   .value = *values[i]});
    }
  }

  // Returns the number of repetitions that all ranks have, because the nodes of a combined run may have repeated
  // different rows.
  static std::uint8_t repetitions_of(const Benchmark& benchmark, const std::string& metric, std::size_t rank) {
    if (benchmark.rows.size() == 1) return 1;
    const auto count = std::ranges::count_if(benchmark.rows, [&](const Row* row) {
      const auto found = row->by_rank.find(metric);
      return found != row->by_rank.end() && found->second[rank];
    });
    return static_cast<std::uint8_t>(std::min<std::ptrdiff_t>(count, max_counted));
  }

  // Returns by how many percent the best repetition of a rank is better than its median.
  static std::uint8_t gain_of(const Benchmark& benchmark, const std::string& metric, std::size_t rank, double value) {
    if (benchmark.rows.size() == 1 || !(value > 0)) return 0;
    const double best = best_value(benchmark, metric, rank).value_or(value);
    return static_cast<std::uint8_t>(std::min<double>(std::abs(best / value - 1) * 100, max_counted));
  }

  static Key pooled_key(const Key& key, const Hosts& hosts) {
    const Key pooled = of_each_rank(key);
    return hosts.count() >= enough_hosts ? pooled : pooled.with("src", "*").with("dst", "*");
  }

  Comparison& comparison_of(const Key& key, const std::string& metric, const std::string& device) {
    // Ranks of one kind are adjacent, so the last comparison is nearly always the right one.
    if (last_ < table_.comparisons.size()) {
      Comparison& last = table_.comparisons[last_];
      if (last.key == key && last.metric == metric && last.device == device) return last;
    }
    const auto [found, fresh] = index_.emplace(std::tuple(key, metric, device), table_.comparisons.size());
    if (fresh) {
      table_.comparisons.emplace_back();
      table_.comparisons.back().key = key;
      table_.comparisons.back().metric = metric;
      table_.comparisons.back().device = device;
    }
    last_ = found->second;
    return table_.comparisons[last_];
  }

  double launches_;
  UnitTable table_;
  HostsByContext hosts_;
  std::map<std::tuple<Key, std::string, std::string>, std::size_t> index_;
  std::size_t last_ = 0;
};

// Compares the values, and judges the classes.
void compare(UnitTable& table) {
  HostsByContext hosts;
  std::erase_if(table.comparisons, [](const Comparison& c) { return c.values.size() < 2; });
  for (const Comparison& comparison : table.comparisons) hosts.of(*comparison.context);
  in_threads(
      numbers_below(table.comparisons.size()),
      [&](std::size_t i) {
        Comparison& comparison = table.comparisons[i];
        measure_values(comparison);
        measure_hosts(comparison, hosts.of(*comparison.context));
      },
      threads_for(table));
  for (const Comparison& comparison : table.comparisons)
    table.tests += comparison.values.size() + comparison.hosts.size();
  if (table.comparisons.empty()) {
    table.not_compared = table.ranks == 1 ? "only 1 rank, so there are no peers; constant wrong bits "
                                            "are found only by the data checks"
                                          : "no benchmark has values of two ranks of the same kind";
    return;
  }
  fill_columns(table);
  const double z = bonferroni_z(table.tests, alpha);
  for (Comparison& c : table.comparisons) {
    c.host_limit = std::max(c.kind.clocked ? host_effect_clocked : c.kind.effect, z * c.host_scale);
  }
}

// Clocks differ far more than the two groups of a population, and of two hosts one may be that much faster by chance.
// Clocked values are therefore compared in groups only if each group has more than two hosts.
bool is_divided(const Comparison& comparison, const Population& population) {
  if (!comparison.kind.clocked) return true;
  std::map<std::string, std::set<std::string>> hosts;  // by group
  for (const PeerValue& v : comparison.values) {
    const auto rank = static_cast<std::size_t>(v.unit.rank);
    hosts[population.groups[rank]].insert(comparison.context->ranks[rank].host);
  }
  return std::ranges::all_of(hosts, [](const auto& group) { return group.second.size() > 2; });
}

// Collects the values of a table before the comparison. GPUs of the two groups of a population count as different kinds
// in that family.
UnitTable divided(const UnitTable& table, std::vector<Population> populations) {
  UnitTable result;
  for (const Comparison& c : table.comparisons) {
    const auto population =
        std::ranges::find(populations, c.key.family(), [](const Population& p) { return p.class_name.family(); });
    const bool apart = population != populations.end() && is_divided(c, *population);
    std::map<std::string, std::size_t> by_device;
    for (const PeerValue& v : c.values) {
      std::string device = c.device;
      if (apart) device += " " + population->groups[static_cast<std::size_t>(v.unit.rank)];
      const auto [found, fresh] = by_device.emplace(device, result.comparisons.size());
      if (fresh) result.comparisons.push_back({c.key, c.metric, device, c.example, c.kind, c.context});
      result.comparisons[found->second].values.push_back(
          {.unit = v.unit, .repetitions = v.repetitions, .gain = v.gain, .value = v.value});
    }
  }
  result.populations = std::move(populations);
  result.ranks = table.ranks;
  result.telemetry = table.telemetry;
  result.counts = table.counts;
  return result;
}

void describe(Finding& finding, const Comparison& c) {
  finding.key = c.key;
  finding.metric = c.metric + "_vs_peers";
  finding.status = Status::fail;
  finding.judgement = Judgement::peers;
  finding.unit = unit_of(c.metric);
  finding.next = measure_command(c.example, c.context->world_size);
}

// Returns the finding about outliers, or about values that nothing confirms.
Finding finding_of(const Comparison& c, bool PeerValue::*which) {
  Finding finding;
  describe(finding, c);
  const bool low_is_good = lower_is_better(c.metric);
  finding.limit = {low_is_good ? LimitKind::max : LimitKind::min, c.centre * (low_is_good ? 1 + c.limit : 1 - c.limit)};
  finding.source = "median of " + std::to_string(c.values.size()) + " values of " + c.device +
                   " in this run: " + number_text(c.centre) + " " + finding.unit;
  std::vector<PeerValue> out;
  for (const PeerValue& v : c.values) {
    if (v.*which) out.push_back(v);
  }
  finding.offender_count = out.size();
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.shortfall > b.shortfall; });
  if (out.size() > max_offenders) out.resize(max_offenders);
  for (const PeerValue& v : out) {
    finding.offenders.push_back(culprit(c.context->ranks[static_cast<std::size_t>(v.unit.rank)], v.value));
  }
  finding.worst = finding.offenders.front();
  finding.part = part_of(c.example, c.metric, *c.context, out.front().unit.rank, out.front().unit.source());
  // A value of a short row is an outlier only if several rows or repetitions agree.
  const bool twice = out.front().repetitions > 1 || (out.front().out && c.metric != "capacity_gb");
  classify(finding, Code::peers, twice ? 2 : 1);
  finding.value = out.front().value;
  finding.detail = percent_text(out.front().shortfall) + (low_is_good ? " above" : " below") +
                   " the median of its peers, " + fmt::format("{:.1f}", c.mads(out.front().shortfall)) + " MADs";
  return finding;
}

// Returns the finding about values that no other value confirms. The programs measure such a row again. Without further
// measurements, or if these differ, the verdict is inconclusive.
Finding in_doubt(const Comparison& c, const RankTelemetry& telemetry) {
  Finding finding = finding_of(c, &PeerValue::noted);
  classify(finding, Code::in_doubt);
  finding.status = Status::inconclusive;
  const bool differ = std::ranges::any_of(c.values, [](const PeerValue& v) { return v.noted && v.gain > 0; });
  const bool chip = c.kind.clocked && std::ranges::all_of(c.values, [&](const PeerValue& v) {
                      return !v.noted || telemetry.power_limited(v.unit.rank);
                    });
  finding.detail += chip     ? "; " + std::string(slow_chip_text)
                    : differ ? "; its repetitions differ"
                             : "; measured once, without confirmation";
  return finding;
}

// Returns a finding about slow hosts, for the case that no rank is an outlier by itself. Half of all ranks cannot be
// outliers, because they determine the median.
Finding finding_of_hosts(const Comparison& c) {
  Finding finding;
  describe(finding, c);
  classify(finding, Code::peers, c.values.front().repetitions);
  finding.metric = c.metric + "_of_host_vs_peers";
  finding.source = "the better ranks of " + std::to_string(c.hosts.size()) + " hosts in this run";
  const PeerHost* worst = nullptr;
  for (const PeerHost& host : c.hosts) {
    if (!c.outlier(host)) continue;
    ++finding.offender_count;
    if (worst == nullptr || host.shortfall > worst->shortfall) worst = &host;
    Culprit place;
    place.host = host.host;
    place.value = host.value;
    if (finding.offenders.size() < max_offenders) finding.offenders.push_back(place);
  }
  finding.worst = finding.offenders.front();
  finding.part = host_part(finding.worst->host);
  finding.value = worst->value;
  finding.detail = percent_text(worst->shortfall) + (lower_is_better(c.metric) ? " above " : " below ") +
                   (c.hosts.size() == 2 ? "the other host" : "the median of the hosts");
  return finding;
}

}  // namespace

UnitTable compare_peers(const Benchmarks& benchmarks, const FamilySet& families, double launches) {
  UnitTable table = Collector(launches).collect(benchmarks, families);
  compare(table);
  auto populations = find_populations(table, DividingFacts(benchmarks));
  if (populations.empty()) return table;
  table = divided(table, std::move(populations));
  compare(table);
  return table;
}

std::set<std::string> compared_families(const UnitTable& table) {
  std::set<std::string> families;
  for (const Comparison& c : table.comparisons) {
    if (table.counts) families.insert(c.key.family());
  }
  return families;
}

std::vector<Finding> findings_of(const UnitTable& table) {
  std::vector<Finding> findings = findings_of(table.populations);
  for (const Comparison& c : table.comparisons) {
    if (std::ranges::any_of(c.values, &PeerValue::out)) {
      findings.push_back(finding_of(c, &PeerValue::out));
    } else if (std::ranges::any_of(c.hosts, [&](const auto& h) { return c.outlier(h); })) {
      findings.push_back(finding_of_hosts(c));
    } else if (std::ranges::any_of(c.values, &PeerValue::noted)) {
      findings.push_back(in_doubt(c, table.telemetry));
    } else {
      continue;
    }
    if (!table.counts) findings.back().severity = Severity::info;
  }
  return findings;
}

std::string summary(const UnitTable& table) {
  if (!table.not_compared.empty()) return table.not_compared;
  std::size_t outliers = 0;
  std::set<int> ranks;
  for (const Comparison& c : table.comparisons) {
    for (const PeerValue& v : c.values) {
      if (!v.out) continue;
      ++outliers;
      ranks.insert(v.unit.rank);
    }
  }
  const std::string compared =
      std::to_string(table.tests) + " values of " + std::to_string(table.ranks) + " ranks compared";
  if (outliers == 0) return compared + ", no outlier";
  return compared + ", " + plural(outliers, "outlier") + ", of " + plural(ranks.size(), "rank") +
         (table.counts ? "" : "; on the host backend this is a warning: ranks share cores");
}

}  // namespace shakedown
