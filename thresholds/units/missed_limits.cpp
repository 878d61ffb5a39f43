// Decides which units miss limits by themselves. A slow GPU must not pass: if it misses its limits in most rows of a
// class, the misses are its own and not those of its peers, unless its clock at the power limit is as low as that
// of healthy chips may be.
#include "thresholds/units/missed_limits.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/findings/rank_telemetry.hpp"
#include "thresholds/results/hosts.hpp"
#include "thresholds/units/classes.hpp"
#include "thresholds/units/doubt.hpp"
#include "thresholds/units/healthy.hpp"

namespace shakedown {
namespace {

constexpr std::string_view measured_once_text = "measured only once, so it is not confirmed";

// `open`: nothing confirms the value. `chip`: only the power cap lowers the clock, but farther than is usual in a
// run of this size.
enum class Miss { own, fleet, noted, open, chip };

// The value of a rank. For a copy between ranks, `from` is its source.
struct RankValue {
  int rank;
  std::optional<int> from;
  double value;
};

std::vector<RankValue> known_values(const Benchmark& benchmark, const std::string& metric, HostsByContext& hosts) {
  std::vector<RankValue> known;
  const auto values = rank_values(benchmark, metric);
  const auto sources = hosts.of(*benchmark.context).sources(benchmark.key);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i]) known.push_back({static_cast<int>(i), sources.of(benchmark.context->ranks[i]), *values[i]});
  }
  return known;
}

double upper_median(const std::vector<RankValue>& known) {
  std::vector<double> values;
  for (const RankValue& v : known) values.push_back(v.value);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Returns the limit that each rank must meet; nullopt if there is none.
std::optional<Limit> limit_by_rank(const Finding& f, const Benchmarks& benchmarks) {
  const auto compared = f.compared();
  if (f.judgement != Judgement::rule || !compared || f.metric == "capacity_gb") return std::nullopt;
  const Limit& limit = compared->limit;
  const bool by_rank =
      limit.kind == LimitKind::min || limit.kind == LimitKind::max || limit.kind == LimitKind::spread_max;
  if (!by_rank || !(limit.value > 0) || !benchmarks.contains(f.key) || !peer_class(f.key, f.metric))
    return std::nullopt;
  return limit;
}

bool has_repetitions(const Benchmark& benchmark) {
  return benchmark.rows.size() >= confirming_repetitions(benchmark.key);
}

bool fails(const Finding& f) { return f.status == Status::fail && f.counts(); }

class Attributor {
 public:
  Attributor(const std::vector<Finding>& findings, const Benchmarks& benchmarks, const UnitTable& table)
      : findings_(findings), benchmarks_(benchmarks), table_(table) {}

  std::vector<Attribution> run() {
    attribute_limits_by_rank();
    downgrade_steps();
    downgrade_collectives();
    return std::move(attributions_);
  }

 private:
  // Attributes limits of ranks. A step is mostly GEMM, so a fleet with low clocks in one of these classes also has them
  // in the other.
  void attribute_limits_by_rank() {
    std::vector<std::pair<std::size_t, Limit>> missed;
    for (std::size_t i = 0; i < findings_.size(); ++i) {
      const Finding& f = findings_[i];
      const auto limit = limit_by_rank(f, benchmarks_);
      if (!limit || !fails(f)) continue;
      missed.emplace_back(i, *limit);
      clocks_are_low_ = clocks_are_low_ || (peer_class(f.key, f.metric)->clocked && fleet_is_low(f));
    }
    for (const auto& [i, limit] : missed) attribute(i, limit);
  }

  bool fleet_is_low(const Finding& f) const {
    const LimitCount units = table_.units_with_limits({classes_of(f.key).front(), f.metric});
    return units.missed >= min_fleet_units &&
           static_cast<double>(units.missed) >= fleet_share * static_cast<double>(units.all);
  }

  /// A step is as slow as its slowest GPU, but its finding is not by rank. If it would meet its limit without healthy
  /// chips at their power limit, it is only a warning; without GPUs whose time is in doubt, it is inconclusive.
  void downgrade_steps() {
    for (std::size_t i = 0; i < findings_.size(); ++i) {
      const Finding& f = findings_[i];
      const auto compared = f.compared();
      if (f.judgement != Judgement::rule || !fails(f) || !compared || compared->limit.kind != LimitKind::min) continue;
      if (!is_training(f.key.family()) || !is_shared(f.key, f.metric) || !benchmarks_.contains(f.key)) continue;
      downgrade_step(i, *compared, benchmarks_.at(f.key));
    }
  }

  /// A collective has one value for all ranks, so a single pause of one rank makes it slow. Without a repetition, only
  /// another slow collective of the same ranks confirms it, or a unit that is slower than its peers.
  void downgrade_collectives() {
    const auto is_out = [](const Column& column) { return std::ranges::any_of(column.cells, &Cell::out); };
    if (std::ranges::any_of(table_.columns, is_out)) return;
    std::map<std::string, std::vector<std::size_t>> missed;  // by scope
    for (std::size_t i = 0; i < findings_.size(); ++i) {
      const Finding& f = findings_[i];
      const auto compared = f.compared();
      if (f.judgement != Judgement::rule || !fails(f) || !compared || !is_collective(f.key.family())) continue;
      if (f.code != Code::limit || limit_by_rank(f, benchmarks_) || !benchmarks_.contains(f.key)) continue;
      if (!is_of_gpus(benchmarks_.at(f.key).context->backend)) continue;  // programs do not repeat them on CPUs
      missed[std::string(f.key.part("scope"))].push_back(i);
    }
    for (const auto& [scope, indices] : missed) {
      std::set<Key> rows;
      for (const std::size_t i : indices) rows.insert(findings_[i].key);
      if (rows.size() > 1 || has_repetitions(benchmarks_.at(*rows.begin()))) continue;
      for (const std::size_t i : indices) {
        attributions_.push_back({.finding = i,
                                 .status = Status::inconclusive,
                                 .own = findings_[i].own,
                                 .reason = std::string(measured_once_text)});
      }
    }
  }

  void attribute(std::size_t index, const Limit& limit) {
    const Finding& f = findings_[index];
    const Benchmark& benchmark = benchmarks_.at(f.key);
    const auto values = known_values(benchmark, f.metric, hosts_);
    if (values.empty()) return;
    const bool spread = limit.kind == LimitKind::spread_max;
    const double centre = upper_median(values);
    std::size_t missed = 0;
    bool copies = false, fleet = false, chip = false;
    std::vector<RankValue> own, open;
    for (const RankValue& v : values) {
      copies = copies || v.from;
      if (spread ? !(shortfall(f, v.value, centre) > limit.value) : !limit.is_missed_by(v.value)) continue;
      ++missed;
      const Miss miss = kind_of(f, limit, benchmark, v, centre);
      if (miss == Miss::own) own.push_back(v);
      if (miss == Miss::open || miss == Miss::chip) open.push_back(v);
      chip = chip || miss == Miss::chip;
      fleet = fleet || miss == Miss::fleet;
    }
    // If most ranks miss a limit, the cause is not a single rank, and RunEvidence::alike handles it.
    if (!spread && (missed == 0 || (!copies && values.size() > 1 && 2 * missed > values.size()))) return;
    const bool counts = !own.empty() || fleet;
    const bool is_open = !counts && !open.empty();
    Attribution a{.finding = index, .own = std::vector<int>{}};
    for (const RankValue& v : own) a.own->push_back(v.rank);
    if (counts || is_open) a.offenders = culprits(f, benchmark, counts ? own : open);
    if (a.offenders && !a.offenders->empty()) {
      a.part = part_of(f.key, f.metric, *benchmark.context, *a.offenders->front().rank);
      if (!spread) a.value = a.offenders->front().value;
    }
    if (is_open) a.status = Status::inconclusive;
    if (!counts && !is_open) a.severity = Severity::warn;
    if (own.empty()) {
      const bool repeated = has_repetitions(benchmark);
      a.reason = counts                ? "the whole fleet misses it"
                 : is_open && chip     ? slow_chip_text
                 : is_open && repeated ? "its repetitions differ, so it is not confirmed"
                 : is_open             ? measured_once_text
                                       : "a warning: no other value of the same GPU confirms it, or a chip has a low "
                                         "clock at the power limit";
    }
    attributions_.push_back(std::move(a));
  }

  void downgrade_step(std::size_t index, const Compared& rate, const Benchmark& benchmark) {
    const Finding& f = findings_[index];
    const auto step = run_value(benchmark, "step_ms");
    const auto values = known_values(benchmark, "compute_ms", hosts_);
    if (!step || values.empty()) return;
    double longest = 0, of_others = upper_median(values);
    std::vector<RankValue> slow;
    for (const RankValue& v : values) {
      longest = std::max(longest, v.value);
      if (is_in_doubt(f.key, v.rank) || slower_by_power(f.key, v.rank).value_or(1) <= doubtful_by_power) {
        slow.push_back(v);
      } else {
        of_others = std::max(of_others, v.value);
      }
    }
    if (longest <= of_others || rate.value * *step / (*step - (longest - of_others)) < rate.limit.value) return;
    std::erase_if(slow, [&](const RankValue& v) { return v.value <= of_others; });
    std::vector<std::string> names;
    for (const RankValue& v : slow) names.push_back("rank " + std::to_string(v.rank));
    names.resize(std::min(names.size(), max_offenders));
    const double limit = slowest_of(benchmark.context->ranks.size(), true);
    const auto is_chip = [&](const RankValue& v) { return slower_by_power(f.key, v.rank).value_or(0) > limit; };
    const auto is_open = [&](const RankValue& v) { return is_in_doubt(f.key, v.rank) || is_chip(v); };
    Attribution a{.finding = index, .reason = "all ranks wait for " + joined(names)};
    if (std::ranges::any_of(slow, is_open)) {
      a.status = Status::inconclusive;
      a.reason += std::ranges::any_of(slow, is_chip) ? ": " + std::string(slow_chip_text)
                                                     : ", whose work is not confirmed by another measurement";
    } else {
      a.severity = Severity::warn;
      a.reason = "a warning: " + a.reason + ", a chip with a low clock at the power limit";
    }
    attributions_.push_back(std::move(a));
  }

  /// Returns how far the clock of a chip in a step is below the median; nullopt if not only the power limit slows it.
  std::optional<double> slower_by_power(const Key& key, int rank) const {
    const Shown here = shown(key, "compute_ms", rank, std::nullopt);
    const bool is_by_power = here.compared && !here.out && !telemetry().held_back(rank) &&
                             telemetry().power_limited(rank) &&
                             !shown(Key("gemm"), "tflops_per_ghz", rank, std::nullopt).out;
    return is_by_power ? std::optional(slower_by(here.shortfall, true)) : std::nullopt;
  }

  const RankTelemetry& telemetry() const { return table_.telemetry; }

  static double shortfall(const Finding& f, double value, double centre) {
    return lower_is_better(f.metric) ? value / centre - 1 : 1 - value / centre;
  }

  // Returns these ranks with their values, the worst first.
  static std::vector<Culprit> culprits(const Finding& f, const Benchmark& benchmark, std::vector<RankValue> values) {
    const double sign = lower_is_better(f.metric) ? -1 : 1;
    std::ranges::stable_sort(values, {}, [&](const RankValue& v) { return sign * v.value; });
    std::vector<Culprit> named;
    for (const RankValue& v : values)
      named.push_back(culprit(benchmark.context->ranks[static_cast<std::size_t>(v.rank)], v.value));
    return named;
  }

  // The cells of a GPU or link in the classes to which a row belongs.
  struct Shown {
    bool compared = false, out = false;
    bool repeated = false;            // in the narrowest class
    double shortfall = 0, scale = 0;  // in the widest class
    double narrowest = 0;             // shortfall in the narrowest class
  };

  Shown shown(const Key& key, const std::string& metric, int rank, std::optional<int> from) const {
    Shown result;
    for (const auto& [column, cell] : table_.cells(key, metric, rank, from)) {
      if (!result.compared) result.shortfall = cell->shortfall, result.scale = column->scale;
      result.compared = true;
      result.out = result.out || cell->out;
      result.narrowest = cell->shortfall;
      result.repeated = cell->repeated;
    }
    return result;
  }

  // True if the GPU is slow in this row, and nothing confirms that.
  bool is_in_doubt(const Key& key, int rank) const {
    return std::ranges::any_of(table_.comparisons, [&](const Comparison& c) {
      if (c.key != key) return false;
      const auto v = std::ranges::lower_bound(c.values, gpu_unit(rank), {}, &PeerValue::unit);
      return v != c.values.end() && v->unit == gpu_unit(rank) && v->noted;
    });
  }

  // True if the work per clock is slow, so that the clock is not the reason for a missed limit of this row.
  bool slow_per_clock(const Key& key, int rank) const {
    for (const Comparison& c : table_.comparisons) {
      if (c.key != key || (c.metric != "tflops_per_ghz" && c.metric != "tokens_per_s_per_ghz")) continue;
      const auto v = std::ranges::lower_bound(c.values, gpu_unit(rank), {}, &PeerValue::unit);
      return v != c.values.end() && v->unit == gpu_unit(rank) && v->shortfall > c.kind.effect;
    }
    return false;
  }

  // Whether repetitions, most rows of a class, or peers with similar values confirm a value. `none`: no other value can
  // confirm it, or the value is far off; the verdict is then inconclusive.
  enum class Support { confirmed, contradicted, none };
  Support support_of(const Finding& f, const Limit& limit, const RankValue& v, const Benchmark& benchmark,
                     const Shown& here) const {
    const PeerClass kind = *peer_class(f.key, f.metric);
    // A low clock affects all rows, so other rows, if there are any, show whether it is too low.
    const bool clock = kind.clocked && !slow_per_clock(f.key, v.rank);
    const bool repeats = here.compared ? here.repeated : has_repetitions(benchmark);
    if (repeats && (!clock || limit.shortfall(v.value) > open_shortfall)) return Support::confirmed;
    const auto names = classes_of(f.key);
    if (clock && is_long_load(f.key)) return Support::confirmed;
    bool alone = true;
    for (const Key& name : names) {
      const LimitCount& count = table_.limits.at({name, f.metric}).at(unit_of(name, v.rank, v.from));
      if (count.all == 1 && name == names.back() && here.narrowest <= doubtful_shortfall(f.key, kind))
        return Support::confirmed;
      if (count.all > 1 && 2 * count.missed > count.all) return Support::confirmed;
      alone = alone && count.all == 1;
    }
    if (alone && repeats) return Support::confirmed;
    return alone || limit.shortfall(v.value) > open_shortfall ? Support::none : Support::contradicted;
  }

  // True if a pair meets the limit when it copies alone. Such a pair is healthy, but shares something with other pairs
  // of the shift.
  bool is_fast_alone(const Finding& f, const Limit& limit, const RankValue& v, const Benchmark& benchmark) const {
    if (f.key.part("shift").empty() || !v.from) return false;
    const auto local = [&](int of) { return benchmark.context->ranks[static_cast<std::size_t>(of)].local_rank; };
    Key alone(f.key.family());
    for (const auto& [name, value] : f.key.parts()) {
      if (name == "shift") {
        alone.set("src", local(*v.from)).set("dst", local(v.rank));
      } else {
        alone.set(name, value);
      }
    }
    const auto found = benchmarks_.find(alone);
    if (found == benchmarks_.end()) return false;
    const auto values = rank_values(found->second, f.metric);
    const auto rank = static_cast<std::size_t>(v.rank);
    return rank < values.size() && values[rank] && !limit.is_missed_by(*values[rank]);
  }

  // `centre` is the median of all ranks.
  Miss kind_of(const Finding& f, const Limit& limit, const Benchmark& benchmark, const RankValue& v,
               double centre) const {
    const Shown here = shown(f.key, f.metric, v.rank, v.from);
    if (here.out || (!here.compared && benchmark.context->world_size == 1)) return Miss::own;
    const bool clocked = peer_class(f.key, f.metric)->clocked;
    if (clocked && shown(f.key, "tflops_per_ghz", v.rank, v.from).out) return Miss::own;
    if (limit.kind == LimitKind::spread_max) {
      if (clocked) return kind_of_chip(here.shortfall, benchmark, telemetry().power_limited(v.rank));
      const bool by_class = here.compared && benchmark.context->ranks.size() >= large_fleet;
      return has_repetitions(benchmark) && !by_class ? Miss::own : Miss::noted;
    }
    if (is_fast_alone(f, limit, v, benchmark)) return Miss::noted;
    const Support support = support_of(f, limit, v, benchmark, here);
    if (support != Support::confirmed) return support == Support::none ? Miss::open : Miss::noted;
    if (v.from || !here.compared) return Miss::own;
    if (!clocked) return fleet_is_low(f) && here.shortfall <= 3 * here.scale ? Miss::fleet : Miss::own;
    return slow_per_clock(f.key, v.rank) ? Miss::own : kind_by_clock(limit, benchmark, v, here, centre);
  }

  // Returns the kind of a miss by how far a chip is below the median.
  static Miss kind_of_chip(double slower, const Benchmark& benchmark, bool by_power) {
    if (slower <= slowest_of(benchmark.context->ranks.size(), by_power)) return Miss::noted;
    return by_power && slower <= doubtful_by_power ? Miss::chip : Miss::own;
  }

  // Returns the kind of a miss if the work per clock is normal and the clock is low. A limit is compared with the
  // median of the fleet. The GPUs of the slower group of a population are nearer to the limit, but as healthy as the
  // others, unless they are farther from that median than a healthy chip can be.
  Miss kind_by_clock(const Limit& limit, const Benchmark& benchmark, const RankValue& v, const Shown& here,
                     double centre_of_all) const {
    // Returns two distances: of the rate from the median rate, and of the median rate from the limit.
    const bool time = limit.kind == LimitKind::max;
    const double slower = slower_by(here.shortfall, time);
    const bool by_power = telemetry().power_limited(v.rank) || telemetry().power_limited_in(benchmark, v.rank);
    const double slowest = slowest_of(benchmark.context->ranks.size(), by_power);
    if (telemetry().held_back(v.rank)) return Miss::own;
    if (const Miss of_chip = kind_of_chip(slower, benchmark, by_power); of_chip != Miss::noted) return of_chip;
    double centre = time ? v.value * (1 - slower) : v.value / (1 - std::min(slower, 0.9));
    const double behind_all = 1 - (time ? centre_of_all / v.value : v.value / centre_of_all);
    if (behind_all <= slowest) centre = time ? std::min(centre_of_all, centre) : std::max(centre_of_all, centre);
    const double distance = time ? centre / limit.value : limit.value / centre;
    if (by_power && distance <= distance_by_power) return Miss::noted;
    if (clocks_are_low_) return Miss::fleet;
    return distance <= healthy_distance ? Miss::noted : Miss::own;
  }

  const std::vector<Finding>& findings_;
  const Benchmarks& benchmarks_;
  const UnitTable& table_;
  HostsByContext hosts_;
  bool clocks_are_low_ = false;
  std::vector<Attribution> attributions_;
};

}  // namespace

UnitTable with_limits(UnitTable table, const std::vector<Finding>& findings, const Benchmarks& benchmarks) {
  HostsByContext hosts;
  const auto each_value = [&](const Finding& f, const auto& classes, const auto& visit) {
    if (classes.empty()) return;  // as for most findings, whose values need not be read
    const auto values = known_values(benchmarks.at(f.key), f.metric, hosts);
    for (const Key& name : classes) {
      auto& counts = table.limits[{name, f.metric}];
      for (const RankValue& v : values) visit(counts, unit_of(name, v.rank, v.from), v.value);
    }
  };
  for (const Finding& f : findings) {
    const auto limit = limit_by_rank(f, benchmarks);
    if (!limit || !fails(f)) continue;
    each_value(f, classes_of(f.key), [&](auto& counts, const Unit& unit, double value) {
      if (limit->is_missed_by(value)) counts[unit];
    });
  }
  for (const Finding& f : findings) {
    const auto limit = limit_by_rank(f, benchmarks);
    if (!limit) continue;
    auto classes = classes_of(f.key);
    std::erase_if(classes, [&](const Key& name) { return !table.limits.contains({name, f.metric}); });
    each_value(f, classes, [&](auto& counts, const Unit& unit, double value) {
      const auto count = counts.find(unit);
      if (count == counts.end()) return;
      ++count->second.all;
      count->second.missed += f.status == Status::fail && limit->is_missed_by(value) ? 1 : 0;
    });
  }
  return table;
}

std::vector<Attribution> attribute_missed_limits(const std::vector<Finding>& findings, const Benchmarks& benchmarks,
                                                 const UnitTable& table) {
  return Attributor(findings, benchmarks, table).run();
}

}  // namespace shakedown
