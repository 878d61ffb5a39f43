// Decides what became slower than the baseline, and which sets may be compared at all: another driver, tuning or number
// of ranks is another measurement. Fails closed: an error, too few repetitions, or nothing that can be compared, is
// never "no regression".
#include "thresholds/history/regression.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "base/utc.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/rules/profile.hpp"

namespace shakedown {
namespace {

// Of the interval of a change, and of finding a change that matters.
constexpr double confidence = 0.95, power = 0.95;

std::vector<std::string> refuse_different(const Baseline& current, const Baseline& baseline, bool allowed) {
  const auto differ = differences(current.facts, baseline.facts);
  std::vector<std::string> notes;
  if (!differ.empty() && !allowed) {
    throw InputError("cannot compare with the baseline: " + differ.front() +
                     "; store a baseline of this configuration, or ask for the comparison with --allow-different");
  }
  for (const std::string& difference : differ) notes.push_back("compared although " + difference);
  return notes;
}

// Why a benchmark of `set` has no value; empty where nobody asked for it.
std::string why_not(const Benchmarks& set, const std::string& key) {
  const auto found = set.find(key);
  if (found == set.end()) return "was not measured";
  if (const Row* error = found->second.error()) return *error->error;
  if (const Row* waiver = found->second.waiver()) return "waived: " + *waiver->waived;
  return "has no value";
}

// One benchmark on both sides, with figures turned so that more is better.
struct Pair {
  std::vector<double> before, after;
  double sign = 1, scale = 1;  // value = sign * figure; scale: the median before
  double effect = 0;           // the least relative change to report
  HodgesLehmann change;        // relative; negative = worse
  MannWhitney test;

  bool loses() const { return change.estimate <= -effect; }
  bool gains() const { return change.estimate >= effect; }
  // A loss of twice the minimal effect is not to be had with these figures.
  bool excludes_loss() const { return change.low && *change.low > -2 * effect; }
  bool excludes_gain() const { return change.high && *change.high < 2 * effect; }

  // Standard deviation of a repetition, relative; 0 where it cannot be known.
  double sigma() const {
    double squares = 0;
    for (const auto* side : {&before, &after}) {
      const double middle = median(*side);
      for (const double value : *side) squares += (value - middle) * (value - middle);
    }
    const std::size_t n = before.size() + after.size();
    return n < 3 ? 0 : std::sqrt(squares / static_cast<double>(n - 2)) / scale;
  }
};

Pair pair_of(const std::string& metric, std::vector<double> before, std::vector<double> after, double min_effect) {
  Pair pair;
  pair.before = std::move(before);
  pair.after = std::move(after);
  pair.sign = lower_is_better(metric) ? -1 : 1;
  pair.scale = std::abs(median(pair.before));
  pair.effect = min_effect;
  if (metric == "latency_us" && pair.scale > 0) pair.effect = std::max(min_effect, latency_floor_us / pair.scale);
  for (auto* side : {&pair.before, &pair.after}) {
    for (double& value : *side) value *= pair.sign;
  }
  pair.test = mann_whitney_u(pair.before, pair.after);
  pair.change = hodges_lehmann(pair.before, pair.after, confidence);
  const double scale = pair.scale > 0 ? pair.scale : 1;
  pair.change.estimate /= scale;
  if (pair.change.low) pair.change.low = *pair.change.low / scale;
  if (pair.change.high) pair.change.high = *pair.change.high / scale;
  return pair;
}

Pair pair_of(const std::string& metric, const Series& before, const Series& after, double min_effect) {
  // Repetitions of one launch are alike in what varies from launch to launch: then a launch is the unit.
  const bool by_launch = before.launches.size() > 1 || after.launches.size() > 1;
  return pair_of(metric, before.units(by_launch), after.units(by_launch), min_effect);
}

// What two sets of launches have in common beside the kind of machine.
class Sessions {
 public:
  Sessions(const Baseline& now, const Baseline& before) {
    std::vector<Start> starts;
    for (const Baseline* side : {&now, &before}) {
      for (const auto& [name, launch] : side->launches) {
        starts.push_back(
            {joined(launch.hosts) + joined(launch.gpus), seconds_of(launch.started).value_or(0), side == &now});
        hosts_[side == &now].insert(launch.hosts.begin(), launch.hosts.end());
        gpus_[side == &now].insert(launch.gpus.begin(), launch.gpus.end());
      }
    }
    std::sort(starts.begin(), starts.end(),
              [](const Start& a, const Start& b) { return std::tie(a.machine, a.at) < std::tie(b.machine, b.at); });
    bool of_now = false, of_before = false;
    const auto end = [&] {
      same_ = same_ && of_now == of_before;
      of_now = of_before = false;
    };
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const bool first = i == 0 || starts[i].machine != starts[i - 1].machine ||
                         starts[i].at - starts[i - 1].at > 3600 * hours_of_session;
      if (first && i > 0) end();
      (starts[i].now ? of_now : of_before) = true;
    }
    end();
  }

  /// Each session has launches of both sides.
  bool same() const { return same_; }
  bool other_machine() const {
    return hosts_[0] != hosts_[1] || (!gpus_[0].empty() && !gpus_[1].empty() && gpus_[0] != gpus_[1]);
  }

  /// The least loss that is more than what two sessions of a machine that did not change differ by: of what is known to
  /// vary between sessions, by families, three standard deviations (eight families, one in a hundred comparisons); of
  /// what is left of launches that follow each other closely, each benchmark by itself, as many as `comparisons` ask
  /// for, and half as much again, since nine launches alike know their own spread badly (autocorrelation 0.7: by the
  /// simulation in tests/thresholds/drift_test.cpp).
  double least_loss(const std::string& key, const std::string& metric, double launch_sigma,
                    std::size_t comparisons) const {
    if (same_) return 0;
    return std::sqrt(2.0) * std::hypot(3 * session_spread(key, metric, other_machine()),
                                       1.5 * bonferroni_z(comparisons, false_alarm) * launch_sigma);
  }

  /// What the reader must know.
  std::optional<std::string> note() const {
    if (same_) return std::nullopt;
    if (!other_machine())
      return "old and new were measured in different sessions: what differs from day to day is no change";
    const bool hosts = hosts_[0] != hosts_[1];
    return (hosts ? "other hosts, " + joined(hosts_[1]) + " and " + joined(hosts_[0]) + " in the baseline"
                  : "other GPUs (UUIDs) than in the baseline") +
           ": what differs from machine to machine is no change";
  }

 private:
  struct Start {
    std::string machine;
    double at;
    bool now;
  };
  std::set<std::string> hosts_[2], gpus_[2];  // of the baseline, of now
  bool same_ = true;
};

void estimate(Change& change, const Pair& pair) {
  change.before_count = pair.before.size();
  change.after_count = pair.after.size();
  if (pair.scale > 0) change.percent = 100 * pair.sign * pair.change.estimate;
  const auto& [low, high] =
      std::pair(pair.sign > 0 ? pair.change.low : pair.change.high, pair.sign > 0 ? pair.change.high : pair.change.low);
  if (low) change.low = 100 * pair.sign * *low;
  if (high) change.high = 100 * pair.sign * *high;
}

void decide(Change& change, const Pair& pair, bool proven_worse, bool proven_better, std::size_t comparisons,
            double least_loss, bool both_ways = false) {
  if (proven_worse && pair.loses() && -pair.change.estimate < least_loss) {
    change.trend = Trend::inconclusive;
    change.detail = "sessions differ by up to " + percent_text(least_loss) + "; measure old and new in turns to tell";
  } else if (proven_worse && pair.loses()) {
    change.trend = Trend::worse;
  } else if (proven_better && pair.gains()) {
    change.trend = pair.change.estimate < least_loss ? Trend::same : Trend::better;
  } else if (pair.excludes_loss() && !pair.loses() && (!both_ways || pair.excludes_gain())) {
    change.trend = Trend::same;
  } else {
    change.trend = Trend::inconclusive;
    const double to_see = std::max(2 * pair.effect, both_ways ? std::abs(pair.change.estimate) : -pair.change.estimate);
    const double alpha = false_alarm / static_cast<double>(comparisons);
    const std::size_t fewest = sample_size(to_see, 0, alpha, power);
    const double sigma = pair.sigma();
    const std::size_t smaller = std::min(pair.before.size(), pair.after.size());
    change.needed = std::max(sample_size(to_see, sigma, alpha, power), smaller + 1);
    const std::string have = std::to_string(pair.before.size()) + " and " + std::to_string(pair.after.size()) +
                             " repetitions, " + std::to_string(*change.needed) + " each would do";
    change.detail = smaller < fewest ? "too few: " + have : "too noisy (" + percent_text(sigma) + "): " + have;
  }
}

}  // namespace

std::vector<std::string> differences(const MachineFacts& current, const MachineFacts& baseline) {
  std::vector<std::string> result;
  std::set<std::string> fields;
  for (const auto& [field, values] : current) fields.insert(field);
  for (const auto& [field, values] : baseline) fields.insert(field);
  const auto known = [](const std::set<std::string>& values) { return values.empty() ? "unknown" : joined(values); };
  const auto of = [](const MachineFacts& facts, const std::string& field) {
    const auto found = facts.find(field);
    if (found != facts.end()) return found->second;
    return is_tuning(field) ? std::set<std::string>{"unset"} : std::set<std::string>{};
  };
  for (const std::string& field : fields) {
    const auto now = of(current, field), before = of(baseline, field);
    if (now != before) result.push_back(field + " is " + known(now) + ", the baseline has " + known(before));
  }
  return result;
}

Change judge_change(const std::string& key, const std::string& metric, const std::vector<double>& before,
                    const std::vector<double>& after, double min_effect) {
  Change change;
  change.key = key;
  change.metric = metric;
  change.before = median(before);
  change.after = median(after);
  const auto pair = pair_of(metric, before, after, min_effect);
  estimate(change, pair);
  decide(change, pair, pair.test.p_less <= false_alarm, pair.test.p_greater <= false_alarm, 1, 0, true);
  return change;
}

Regression judge_regression(const Measured& current, const Baseline& baseline, const RegressionOptions& options) {
  if (current.files.empty()) throw InputError("no result files to compare; check --results");
  if (!(options.min_effect > 0 && options.min_effect < 1)) {
    throw InputError("--min-effect must be above 0 and below 1, as in 0.01");
  }
  const Baseline now = baseline_of(current.files);
  const Benchmarks& measured = current.benchmarks;
  Regression regression;
  regression.min_effect = options.min_effect;
  regression.notes = refuse_different(now, baseline, options.allow_different);
  std::set<std::string> keys;
  for (const auto& [key, entry] : baseline.benchmarks) keys.insert(key);
  for (const auto& [key, entry] : now.benchmarks) keys.insert(key);
  for (const auto& [key, benchmark] : measured) {
    if (benchmark.error() != nullptr) keys.insert(key);
  }
  std::vector<Pair> pairs;
  std::vector<std::size_t> place;  // of each pair in changes
  bool one_launch = true;
  for (const std::string& key : keys) {
    // The facts of pre-flight are no figures: rules judge them, and what would change a figure is compared above.
    if (!options.families.has_key(key) || family_of(key) == "preflight") continue;
    const auto before = baseline.benchmarks.find(key);
    const auto after = now.benchmarks.find(key);
    Change change;
    change.key = key;
    const bool in_baseline = before != baseline.benchmarks.end(), in_current = after != now.benchmarks.end();
    change.metric = in_baseline ? before->second.headline : in_current ? after->second.headline : "";
    const auto value = [&](const auto& entry) -> const Series* {
      const auto found = entry->second.series.find(change.metric);
      return found == entry->second.series.end() ? nullptr : &found->second;
    };
    const Series* old_one = in_baseline ? value(before) : nullptr;
    const Series* new_one = in_current ? value(after) : nullptr;
    if (old_one != nullptr) change.before = median(old_one->units(false));
    if (new_one != nullptr) change.after = median(new_one->units(false));
    if (old_one != nullptr && new_one != nullptr) {
      pairs.push_back(pair_of(change.metric, *old_one, *new_one, options.min_effect));
      place.push_back(regression.changes.size());
      one_launch = one_launch && old_one->launches.size() == 1 && new_one->launches.size() == 1;
    } else if (new_one != nullptr) {
      change.trend = Trend::added;
    } else {
      change.trend = Trend::missing;
      change.detail = in_current ? "\"" + change.metric + "\" is missing in a repetition" : why_not(measured, key);
    }
    regression.changes.push_back(std::move(change));
  }
  const Sessions sessions(now, baseline);
  if (const auto note = sessions.note()) regression.notes.push_back(*note);
  std::vector<double> less, greater;
  for (const Pair& pair : pairs) {
    less.push_back(pair.test.p_less);
    greater.push_back(pair.test.p_greater);
  }
  const auto worse = benjamini_hochberg(less, false_alarm), better = benjamini_hochberg(greater, false_alarm);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    Change& change = regression.changes[place[i]];
    const Pair& pair = pairs[i];
    estimate(change, pair);
    decide(change, pair, worse[i], better[i], pairs.size(),
           sessions.least_loss(change.key, change.metric, pair.sigma(), pairs.size()));
  }
  regression.compared = pairs.size();
  const auto any = [&](Trend trend) {
    return std::any_of(regression.changes.begin(), regression.changes.end(),
                       [&](const Change& change) { return change.trend == trend; });
  };
  // One noisy family does not make all inconclusive: they are where it is most of what was compared.
  std::map<std::string, std::size_t> unclear;  // by family
  std::size_t inconclusive = 0;
  for (const Change& change : regression.changes) {
    if (change.trend != Trend::inconclusive) continue;
    ++unclear[family_of(change.key)];
    ++inconclusive;
  }
  regression.exit_code = any(Trend::worse) || any(Trend::missing) ? 1 : 2 * inconclusive > pairs.size() ? 3 : 0;
  if (inconclusive > 0) {
    std::vector<std::string> families;
    for (const auto& [family, count] : unclear) families.push_back(family + " (" + std::to_string(count) + ")");
    regression.notes.push_back("cannot tell: " + joined(families));
  }
  if (regression.compared == 0 && regression.exit_code == 0) {
    throw InputError("nothing to compare: no benchmark has a value in both sets; check --results and --baseline");
  }
  if (one_launch && regression.compared > 0) {
    regression.notes.push_back(
        "each side is one launch: what varies from launch to launch counts as a change; ci/regression makes several");
  }
  for (auto& note : notes_on_copies(now, baseline)) regression.notes.push_back(std::move(note));
  return regression;
}

std::vector<Finding> judge_by_baseline(const Measured& current, const Baseline& baseline, double tolerance,
                                       const FamilySet& families) {
  if (!(tolerance >= 0 && tolerance < 1)) throw InputError("--tolerance must be from 0 to below 1, as in 0.05");
  const Baseline now = baseline_of(current.files);
  refuse_different(now, baseline, false);
  const Benchmarks& measured = current.benchmarks;
  std::vector<Finding> findings;
  std::size_t compared = 0;
  for (const auto& [key, entry] : baseline.benchmarks) compared += families.has_key(key) ? 1 : 0;
  const auto start = [&](const std::string& key, const std::string& metric) {
    Finding finding;
    finding.key = key;
    finding.metric = (metric.empty() ? "" : metric + "_") + "vs_baseline";
    finding.judgement = Judgement::baseline;
    finding.unit = unit_of(metric);
    finding.source = "baseline";
    return finding;
  };
  const int ranks = now.ranks;
  for (const auto& [key, entry] : baseline.benchmarks) {
    if (!families.has_key(key)) continue;
    const std::string& metric = entry.headline;
    const bool falls = lower_is_better(metric);
    const auto units = entry.series.at(metric).units(false);
    const double before = median(units), size = std::abs(before);
    const std::size_t launches = entry.series.at(metric).launches.size();
    double allowed = tolerance * size;
    if (metric == "latency_us") allowed = std::max(allowed, latency_floor_us);
    const double narrow = allowed;
    const bool own = launches >= launches_to_judge;
    const double spread = own ? robust_sigma(units)
                              : launch_spread(key, metric) * size * std::sqrt(1 + 1 / static_cast<double>(launches));
    allowed = std::max(allowed, bonferroni_z(compared, false_alarm) * spread);
    Finding finding = start(key, metric);
    finding.limit = falls ? Limit{LimitKind::max, before + allowed} : Limit{LimitKind::min, before - allowed};
    finding.source +=
        " " + number_text(before) + " of " + std::to_string(launches) + (launches == 1 ? " launch" : " launches");
    const auto found = measured.find(key);
    const bool has_value = now.benchmarks.contains(key) && now.benchmarks.at(key).series.contains(metric);
    if (!has_value) {
      finding.status = Status::missing;
      finding.detail =
          now.benchmarks.contains(key) ? "\"" + metric + "\" is missing in a repetition" : why_not(measured, key);
      if (found != measured.end() && found->second.error()) finding.wrong_ranks = found->second.error()->wrong_ranks;
    } else {
      finding.value = run_value(found->second, metric);
      if (!finding.value) finding.value = median(now.benchmarks.at(key).series.at(metric).units(false));
      const double loss = falls ? *finding.value - before : before - *finding.value;
      if (size > 0) finding.detail = fmt::format("{:+.1f} %", 100 * (*finding.value - before) / size);
      if (!(loss <= allowed)) {
        finding.status = Status::fail;
      } else if (loss > narrow) {
        finding.status = Status::inconclusive;
        finding.detail += std::string(", within ") +
                          (own ? "the spread of the baseline" : "what launches of one machine differ by") +
                          " but beyond the tolerance";
      }
      if (const auto rank = slowest_rank(found->second)) {
        finding.worst = culprit(found->second.context->ranks[static_cast<std::size_t>(*rank)]);
        if (finding.status == Status::fail) {
          finding.offenders = {*finding.worst};
          finding.offender_count = 1;
        }
      }
    }
    if (!finding.good()) finding.next = measure_command(key, ranks);
    findings.push_back(std::move(finding));
  }
  // What failed now and is not in the baseline.
  for (const auto& [key, benchmark] : measured) {
    if (benchmark.error() == nullptr || baseline.benchmarks.contains(key) || !families.has_key(key)) continue;
    Finding finding = start(key, "");
    finding.status = Status::missing;
    finding.detail = *benchmark.error()->error;
    finding.wrong_ranks = benchmark.error()->wrong_ranks;
    finding.next = measure_command(key, ranks);
    findings.push_back(std::move(finding));
  }
  if (findings.empty()) {
    throw InputError("nothing to compare: the baseline has no benchmark" +
                     (families.all() ? std::string() : " of " + joined(families.names)) + "; check --baseline");
  }
  return findings;
}

}  // namespace shakedown
