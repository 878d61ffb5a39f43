// Decides whom a missed limit is about. It must not let a slow GPU pass: one that misses its limits in most rows of a
// class does so by itself, unless that is only the clock which power leaves to a chip, within what chips are known to
// differ by.
#include "thresholds/units/missed_limits.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/findings/rank_telemetry.hpp"
#include "thresholds/results/hosts.hpp"
#include "thresholds/rules/profile.hpp"
#include "thresholds/units/chip_variation.hpp"
#include "thresholds/units/classes.hpp"
#include "thresholds/units/doubt.hpp"

namespace shakedown {
namespace {

// Floors stand below the slowest of few healthy chips, so that the median of a healthy fleet is further above.
constexpr double healthy_distance = 0.90;
// Warm racks, slow lots and falling clocks make a healthy fleet 5 % slower than the few GPUs of a reference: of a chip
// that only power holds back a third as far is enough.
constexpr double distance_by_power = 0.97;
// Where so many miss limits of a class, it is the fleet that is low.
constexpr double many = 0.1;
constexpr std::size_t several = 3;

enum class Miss { own, fleet, noted, open };

using Values = std::vector<std::optional<double>>;

class Attributor {
 public:
  Attributor(const std::vector<Finding>& findings, const Benchmarks& benchmarks, const UnitTable& table)
      : findings_(findings), benchmarks_(benchmarks), table_(table), telemetry_(benchmarks) {}

  std::vector<Attribution> run() {
    attribute_limits_by_rank();
    downgrade_steps();
    return std::move(attributions_);
  }

 private:
  void attribute_limits_by_rank() {
    std::vector<std::pair<std::size_t, Limit>> broken;
    for (std::size_t i = 0; i < findings_.size(); ++i) {
      const Finding& f = findings_[i];
      const auto limit = limit_by_rank(f);
      if (!limit || f.status != Status::fail || !f.counts()) continue;
      broken.emplace_back(i, *limit);
      collect(f, *limit);
    }
    if (broken.empty()) return;
    for (const Finding& f : findings_) {
      if (const auto limit = limit_by_rank(f)) count(f, *limit);
    }
    for (const auto& [i, limit] : broken) find_crowd(findings_[i]);
    for (const auto& [i, limit] : broken) attribute(i, limit);
  }

  /// A step is as slow as its slowest GPU, and no finding by rank. Where it would meet its limit if the chips that only
  /// power holds back computed as fast as the others, it is those, and fails as little as they do.
  void downgrade_steps() {
    for (std::size_t i = 0; i < findings_.size(); ++i) {
      const Finding& f = findings_[i];
      if (f.judgement != Judgement::rule || f.status != Status::fail || !f.counts()) continue;
      const auto compared = f.compared();
      if (!compared || compared->limit.kind != LimitKind::min) continue;
      if (!is_training(f.key.family()) || !is_shared(f.key, f.metric) || !benchmarks_.contains(f.key)) continue;
      downgrade_step(i, *compared, benchmarks_.at(f.key));
    }
  }

  struct Count {
    std::size_t rows = 0, below = 0;
  };

  // The limit that ranks were compared with; nullopt if none were.
  std::optional<Limit> limit_by_rank(const Finding& f) const {
    const auto compared = f.compared();
    if (f.judgement != Judgement::rule || !compared || f.metric == "capacity_gb") return std::nullopt;
    const Limit& limit = compared->limit;
    const bool by_rank =
        limit.kind == LimitKind::min || limit.kind == LimitKind::max || limit.kind == LimitKind::spread_max;
    if (!by_rank || !(limit.value > 0) || !benchmarks_.contains(f.key) || !peer_class(f.key, f.metric))
      return std::nullopt;
    return limit;
  }

  const Hosts& hosts_of(const Context& context) {
    const auto found = hosts_.find(&context);
    return found == hosts_.end() ? hosts_.emplace(&context, Hosts(context)).first->second : found->second;
  }

  // Who misses a limit anywhere in a class.
  void collect(const Finding& f, const Limit& limit) {
    const Benchmark& benchmark = benchmarks_.at(f.key);
    const auto sources = hosts_of(*benchmark.context).sources(f.key);
    const Values values = rank_values(benchmark, f.metric);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!values[i] || !limit.is_missed_by(*values[i])) continue;
      const auto from = sources.of(benchmark.context->ranks[i]);
      for (const Key& name : classes_of(f.key)) {
        counts_[{name, f.metric}][unit_of(name, static_cast<int>(i), from)];
      }
    }
  }

  // Classes in which many miss a limit. A step is mostly GEMM: what holds for the clocks of one holds for the other.
  void find_crowd(const Finding& f) {
    const Key name = classes_of(f.key).front();
    const auto columns = table_.columns_of.find({name, f.metric});
    const auto found = counts_.find({name, f.metric});
    if (columns == table_.columns_of.end() || found == counts_.end() || found->second.size() < several) return;
    std::size_t all = 0;
    for (const std::size_t column : columns->second) all += table_.columns[column].cells.size();
    if (static_cast<double>(found->second.size()) < many * static_cast<double>(all)) return;
    if (peer_class(f.key, f.metric)->clocked) {
      clocks_are_crowded_ = true;
    } else {
      crowded_.insert({name, f.metric});
    }
  }

  // Of each of them: in how many rows of the class it has a limit, and in how many it misses that.
  void count(const Finding& f, const Limit& limit) {
    const auto names = classes_of(f.key);
    if (std::none_of(names.begin(), names.end(), [&](const auto& n) { return counts_.contains({n, f.metric}); }))
      return;
    const Benchmark& benchmark = benchmarks_.at(f.key);
    const auto sources = hosts_of(*benchmark.context).sources(f.key);
    const Values values = rank_values(benchmark, f.metric);
    for (const Key& name : names) {
      const auto found = counts_.find({name, f.metric});
      if (found == counts_.end()) continue;
      for (std::size_t rank = 0; rank < values.size(); ++rank) {
        if (!values[rank]) continue;
        const auto from = sources.of(benchmark.context->ranks[rank]);
        const auto unit = found->second.find(unit_of(name, static_cast<int>(rank), from));
        if (unit == found->second.end()) continue;
        ++unit->second.rows;
        unit->second.below += f.status == Status::fail && limit.is_missed_by(*values[rank]) ? 1 : 0;
      }
    }
  }

  void attribute(std::size_t index, const Limit& limit) {
    const Finding& f = findings_[index];
    const Benchmark& benchmark = benchmarks_.at(f.key);
    const Values values = rank_values(benchmark, f.metric);
    const auto sources = hosts_of(*benchmark.context).sources(f.key);
    std::size_t known = 0, missed = 0;
    bool copies = false, fleet = false;
    std::vector<int> own, open;
    const bool spread = limit.kind == LimitKind::spread_max;
    const auto centre = centre_of(values);
    if (!centre) return;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!values[i]) continue;
      ++known;
      const int rank = static_cast<int>(i);
      const auto from = sources.of(benchmark.context->ranks[i]);
      copies = copies || from;
      if (spread ? !(behind(f, *values[i], *centre) > limit.value) : !limit.is_missed_by(*values[i])) continue;
      ++missed;
      const Miss miss = kind_of(f, limit, benchmark, rank, from, *values[i]);
      if (miss == Miss::own) own.push_back(rank);
      if (miss == Miss::open) open.push_back(rank);
      fleet = fleet || miss == Miss::fleet;
    }
    // What most miss is nobody's own: it is put together elsewhere (RunEvidence::alike).
    if (!spread && (missed == 0 || (!copies && known > 1 && 2 * missed > known))) return;
    const bool counts = !own.empty() || fleet;
    const bool is_open = !counts && !open.empty();
    Attribution a{.finding = index};
    if (counts || is_open) a.offenders = culprits(f, benchmark, counts ? own : open, values);
    if (a.offenders && !a.offenders->empty()) {
      a.part = part_of(f.key, f.metric, *benchmark.context, *a.offenders->front().rank);
      if (!spread) a.value = a.offenders->front().value;
    }
    if (is_open) a.status = Status::inconclusive;
    if (!counts && !is_open) a.severity = Severity::warn;
    if (own.empty()) {
      a.reason = counts    ? "with the whole fleet"
                 : is_open ? "measured once, and nothing confirms it"
                           : "noted, and fails nothing: no other value of the same GPU confirms it, or it is the clock "
                             "that power leaves to a slow chip";
    }
    a.own = std::move(own);
    attributions_.push_back(std::move(a));
  }

  void downgrade_step(std::size_t index, const Compared& rate, const Benchmark& benchmark) {
    const Finding& f = findings_[index];
    const auto step = run_value(benchmark, "step_ms");
    const Values values = rank_values(benchmark, "compute_ms");
    const auto centre = centre_of(values);
    if (!step || !centre) return;
    double longest = 0, of_others = *centre;
    std::vector<int> slow;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!values[i]) continue;
      longest = std::max(longest, *values[i]);
      const int rank = static_cast<int>(i);
      if (*values[i] <= of_others || !is_slow_silicon(f.key, rank, values.size())) {
        of_others = std::max(of_others, *values[i]);
      } else {
        slow.push_back(rank);
      }
    }
    if (longest <= of_others || rate.value * *step / (*step - (longest - of_others)) < rate.limit.value) return;
    std::erase_if(slow, [&](int rank) { return *values[static_cast<std::size_t>(rank)] <= of_others; });
    std::vector<std::string> names;
    for (const int rank : slow) names.push_back("rank " + std::to_string(rank));
    names.resize(std::min(names.size(), max_offenders));
    attributions_.push_back({.finding = index,
                             .severity = Severity::warn,
                             .reason = "noted, and fails nothing: all wait for " + joined(names) +
                                       ", with the clock that power leaves to a slow chip"});
  }

  /// Slow by no more than healthy chips are at their power limit, and by nothing else.
  bool is_slow_silicon(const Key& key, int rank, std::size_t ranks) const {
    const Standing here = standing(key, "compute_ms", rank, std::nullopt);
    return here.compared && !here.out && !held_back(rank) && telemetry_.power_limited(rank) &&
           here.shortfall / (1 + here.shortfall) <= slowest_of(ranks, true) &&
           !standing(Key("gemm"), "tflops_per_ghz", rank, std::nullopt).out;
  }

  bool held_back(int rank) const {
    const auto [found, fresh] = held_back_.emplace(rank, false);
    if (fresh) found->second = telemetry_.held_back(rank);
    return found->second;
  }

  static double behind(const Finding& f, double value, double centre) {
    return lower_is_better(f.metric) ? value / centre - 1 : 1 - value / centre;
  }

  static std::optional<double> centre_of(const Values& values) {
    std::vector<double> known;
    for (const auto& value : values) {
      if (value) known.push_back(*value);
    }
    if (known.empty()) return std::nullopt;
    const auto middle = known.begin() + static_cast<std::ptrdiff_t>(known.size() / 2);
    std::nth_element(known.begin(), middle, known.end());
    return *middle;
  }

  // These ranks with their values, the worst first.
  static std::vector<Culprit> culprits(const Finding& f, const Benchmark& benchmark, const std::vector<int>& ranks,
                                       const Values& values) {
    std::vector<Culprit> named;
    for (const int rank : ranks) {
      const auto i = static_cast<std::size_t>(rank);
      named.push_back(culprit(benchmark.context->ranks[i], values[i]));
    }
    const bool low_is_good = lower_is_better(f.metric);
    std::stable_sort(named.begin(), named.end(), [&](const Culprit& a, const Culprit& b) {
      return low_is_good ? *a.value > *b.value : *a.value < *b.value;
    });
    return named;
  }

  struct Standing {
    bool compared = false, out = false;
    double shortfall = 0, scale = 0;  // of the widest class
    double narrowest = 0;             // shortfall of the narrowest class
  };

  // Of this GPU or link in the classes of the key.
  Standing standing(const Key& key, const std::string& metric, int rank, std::optional<int> from) const {
    Standing result;
    for (const auto& [column, cell] : table_.cells(key, metric, rank, from)) {
      if (!result.compared) result.shortfall = cell->shortfall, result.scale = column->scale;
      result.compared = true;
      result.out = result.out || cell->out;
      result.narrowest = cell->shortfall;
    }
    return result;
  }

  // By more than one value may be off: then a missed limit of this row is not the clock's doing.
  bool slow_per_clock(const Key& key, int rank) const {
    for (const Comparison& c : table_.comparisons) {
      if (c.key != key || c.metric != "tflops_per_ghz") continue;
      const auto v = std::ranges::lower_bound(c.values, gpu_unit(rank), {}, &PeerValue::unit);
      return v != c.values.end() && v->unit == gpu_unit(rank) && v->shortfall > c.kind.effect;
    }
    return false;
  }

  // Whether its repetitions, most rows of a class, or its peers, who are alike, confirm what this value says. Where
  // there is nothing that could, or the value is far off, it leaves the verdict open.
  enum class Support { confirmed, contradicted, none };
  Support support_of(const Finding& f, const Limit& limit, int rank, std::optional<int> from, double value,
                     const Benchmark& benchmark, const Standing& here) const {
    const PeerClass kind = *peer_class(f.key, f.metric);
    // A low clock repeats: other rows tell whether it is too low, where there are any.
    const bool clock = kind.clocked && !slow_per_clock(f.key, rank);
    const bool repeats = benchmark.rows.size() >= enough_repetitions;
    if (repeats && (!clock || limit.shortfall(value) > open_shortfall)) return Support::confirmed;
    const auto names = classes_of(f.key);
    if (!is_brief(names.back(), f.metric)) return Support::confirmed;
    bool alone = true;
    for (const Key& name : names) {
      const auto found = counts_.find({name, f.metric});
      if (found == counts_.end()) continue;
      const auto unit = found->second.find(unit_of(name, rank, from));
      if (unit == found->second.end()) continue;
      const Count& c = unit->second;
      if (c.rows == 1 && name == names.back() && here.narrowest <= doubtful_shortfall(f.key, kind))
        return Support::confirmed;
      if (c.rows > 1 && 2 * c.below > c.rows) return Support::confirmed;
      alone = alone && c.rows == 1;
    }
    if (alone && repeats) return Support::confirmed;
    return alone || limit.shortfall(value) > open_shortfall ? Support::none : Support::contradicted;
  }

  // A pair that keeps the limit alone shares something with the other pairs of the shift, and is healthy itself.
  bool is_fast_alone(const Finding& f, const Limit& limit, int rank, std::optional<int> from,
                     const Benchmark& benchmark) const {
    if (f.key.part("shift").empty() || !from) return false;
    const auto local = [&](int of) { return benchmark.context->ranks[static_cast<std::size_t>(of)].local_rank; };
    Key alone(f.key.family());
    for (const auto& [name, value] : f.key.parts()) {
      if (name == "shift") {
        alone.set("src", local(*from)).set("dst", local(rank));
      } else {
        alone.set(name, value);
      }
    }
    const auto found = benchmarks_.find(alone);
    if (found == benchmarks_.end()) return false;
    const Values values = rank_values(found->second, f.metric);
    const auto& value =
        static_cast<std::size_t>(rank) < values.size() ? values[static_cast<std::size_t>(rank)] : std::nullopt;
    return value && !limit.is_missed_by(*value);
  }

  Miss kind_of(const Finding& f, const Limit& limit, const Benchmark& benchmark, int rank, std::optional<int> from,
               double value) const {
    const Standing here = standing(f.key, f.metric, rank, from);
    if (!here.compared && benchmark.context->world_size == 1) return Miss::own;
    if (here.out) return Miss::own;
    const bool clocked = peer_class(f.key, f.metric)->clocked;
    const bool work_is_slow = clocked && standing(f.key, "tflops_per_ghz", rank, from).out;
    if (work_is_slow) return Miss::own;
    const std::size_t ranks = benchmark.context->ranks.size();
    if (limit.kind == LimitKind::spread_max) {
      const bool own = clocked ? here.shortfall > slowest_of(ranks, telemetry_.power_limited(rank))
                               : benchmark.rows.size() >= enough_repetitions;
      return own ? Miss::own : Miss::noted;
    }
    if (is_fast_alone(f, limit, rank, from, benchmark)) return Miss::noted;
    const Support support = support_of(f, limit, rank, from, value, benchmark, here);
    if (support != Support::confirmed) return support == Support::none ? Miss::open : Miss::noted;
    if (from || !here.compared || (clocked && slow_per_clock(f.key, rank))) return Miss::own;
    const bool crowded = clocked ? clocks_are_crowded_ : crowded_.contains({classes_of(f.key).front(), f.metric});
    if (!clocked) return crowded && here.shortfall <= 3 * here.scale ? Miss::fleet : Miss::own;
    // How far its rate is behind, and how far the limit is behind the median rate.
    const bool time = limit.kind == LimitKind::max;
    const double slower = time ? here.shortfall / (1 + here.shortfall) : here.shortfall;
    const bool by_power = telemetry_.power_limited(rank) || telemetry_.power_limited_in(benchmark, rank);
    if (held_back(rank) || slower > slowest_of(ranks, by_power)) return Miss::own;
    const double centre = time ? value * (1 - slower) : value / (1 - std::min(slower, 0.9));
    if (crowded) return Miss::fleet;
    const double distance = time ? centre / limit.value : limit.value / centre;
    return distance <= (by_power ? distance_by_power : healthy_distance) ? Miss::noted : Miss::own;
  }

  const std::vector<Finding>& findings_;
  const Benchmarks& benchmarks_;
  const UnitTable& table_;
  const RankTelemetry telemetry_;
  std::map<const Context*, Hosts> hosts_;
  mutable std::map<int, bool> held_back_;
  std::set<ClassMetric> crowded_;
  bool clocks_are_crowded_ = false;
  std::map<ClassMetric, std::map<Unit, Count>> counts_;
  std::vector<Attribution> attributions_;
};

}  // namespace

std::vector<Attribution> attribute_missed_limits(const std::vector<Finding>& findings, const Benchmarks& benchmarks,
                                                 const UnitTable& table) {
  return Attributor(findings, benchmarks, table).run();
}

}  // namespace shakedown
