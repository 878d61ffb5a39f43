// Finds benchmarks that became slower than the baseline, and rejects sets that are not comparable (driver, tuning,
// number of ranks). An error, too few launches, or nothing to compare never count as "no regression".
#include "thresholds/history/regression.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/history/launch_noise.hpp"

namespace shakedown {
namespace {

std::vector<std::string> refuse_different(const std::vector<std::string>& differ, bool allowed) {
  if (!differ.empty() && !allowed) {
    throw InputError("cannot compare with the baseline: " + differ.front() + "; " + std::string(on_differences));
  }
  std::vector<std::string> notes;
  for (const std::string& difference : differ) notes.push_back("compared although " + difference);
  return notes;
}

// Returns why `set` has no value of a benchmark; empty if the benchmark was not requested.
std::string why_not(const Benchmarks& set, const std::string& key) {
  const auto found = set.find(key);
  if (found == set.end()) return "was not measured";
  if (const Row* error = found->second.error()) return *error->error;
  if (const Row* waiver = found->second.waiver()) return "waived: " + *waiver->waived;
  return "has no value";
}

const Series* series_of(const Baseline& set, const std::string& key, const std::string& metric) {
  const auto entry = set.benchmarks.find(key);
  if (entry == set.benchmarks.end()) return nullptr;
  const auto found = entry->second.series.find(metric);
  return found == entry->second.series.end() ? nullptr : &found->second;
}

// Days and machines change all figures of a family together. A run has about eight families, so three standard
// deviations give one false comparison in a hundred.
constexpr double shared_z = 3;

/// The effect that all benchmarks of one family have in common.
struct Limits {
  double alpha = 0;              // significance level of a single benchmark
  double min_unjudged_loss = 0;  // relative change
};

/// A benchmark that both sides have.
class Pair {
 public:
  Pair(std::size_t place, double gain, double effect, const Noise& noise)
      : place(place), gain(gain), effect(effect), noise(noise) {}

  std::size_t place;  // index in the changes
  double gain;        // relative to the older median; negative: worse
  double effect;      // smallest gain or loss to report
  Noise noise;

  /// Returns the gain as a normal value. `alpha` is that of Limits.
  double z(double alpha) const {
    const double sum = error(alpha);
    return sum > 0 ? normal_of_student(gain / sum, noise.degrees) : gain == 0 ? 0 : std::copysign(99, gain);
  }
  /// Returns the deviation that launches alone exceed on one side with probability `p`.
  double margin(double p) const { return noise.launches * student(p); }
  /// Returns the smallest loss that exceeds the noise of launches, days and machines.
  double least_loss(double alpha) const { return error(alpha) * student(alpha); }

 private:
  double student(double p) const { return student_of_normal(-normal_quantile(p), noise.degrees); }
  // At the level `alpha`, the common effect of a family counts `shared_z` of its standard deviations.
  double error(double alpha) const { return std::hypot(noise.launches, shared_z / student(alpha) * noise.shared); }
};

// True for a collective of one rank. Such a collective copies inside its GPU or does nothing, so it does not show
// links.
bool sends_nothing(const Key& key, int ranks) { return ranks == 1 && is_collective(key.family()); }

void explain_inconclusive(Change& change, const Pair& pair, const Limits& limits) {
  const double to_see = std::max(2 * pair.effect, -pair.gain);
  const double z = -normal_quantile(limits.alpha) - normal_quantile(1 - change_power);
  const double launches = 2 * std::pow(z * pair.noise.sigma / to_see, 2);
  const std::size_t smaller = std::min(change.before_count, change.after_count);
  change.needed = std::max(static_cast<std::size_t>(std::ceil(launches)), smaller + 1);
  change.detail = "launches differ by " + percent_text(pair.noise.sigma) + ": " + std::to_string(*change.needed) +
                  " alternating launches of old and new are needed to decide";
}

void decide(Change& change, const Pair& pair, bool proven_worse, bool proven_better, const Limits& limits) {
  const double needed = std::max(pair.effect, pair.least_loss(limits.alpha));
  const double named = std::max(pair.effect, pair.margin(limits.alpha) + pair.margin(1 - change_power));
  change.limit_percent = 100 * needed;
  // The known noise of noisy figures does not describe rare values, which only the launches themselves show.
  const bool is_noisy = named > limits.min_unjudged_loss;
  const bool is_known = !is_noisy || std::max(change.before_count, change.after_count) >= launches_to_judge;
  if (proven_worse && is_known && -pair.gain >= pair.effect) {
    change.trend = Trend::worse;
  } else if (proven_better && is_known && pair.gain >= pair.effect) {
    change.trend = Trend::better;
  } else if (is_noisy) {
    change.trend = Trend::noisy;
    change.detail = "only a loss of " + percent_text(named) + " would be detected";
  } else if (-pair.gain < pair.effect && -pair.gain + pair.margin((1 - change_confidence) / 2) < 2 * pair.effect) {
    change.trend = Trend::same;
  } else {
    change.trend = Trend::inconclusive;
    explain_inconclusive(change, pair, limits);
  }
}

/// The changes of one comparison. First finds those that need no statistics.
class Comparison {
 public:
  Comparison(BaselinePair pair, const RegressionOptions& options)
      : measured_(pair.current.benchmarks), now_(std::move(pair.now)), before_(pair.before), options_(options) {
    result_.min_effect = options.min_effect;
    result_.notes = refuse_different(pair.differences, options.allow_different);
  }

  Regression judged() {
    collect();
    judge();
    conclude();
    return std::move(result_);
  }

 private:
  void collect() {
    std::set<std::string> keys;
    for (const Baseline* set : {&before_, &now_}) {
      for (const auto& [key, entry] : set->benchmarks) keys.insert(key);
    }
    for (const auto& [key, benchmark] : measured_) {
      if (benchmark.error() != nullptr) keys.insert(key);
    }
    for (const std::string& text : keys) {
      const Key key(text);
      // Facts of pre-flight are not compared here, because rules judge them and the configuration contains them. The
      // second turn of a row is ignored, because it is measured only if the first turn was doubtful.
      if (!options_.families.has_key(key) || key.family() == "preflight" || !key.part("turn").empty()) continue;
      add(key);
    }
  }

  void add(const Key& key) {
    const auto old_entry = before_.benchmarks.find(key), new_entry = now_.benchmarks.find(key);
    const bool is_old = old_entry != before_.benchmarks.end(), is_new = new_entry != now_.benchmarks.end();
    Change change;
    change.key = key;
    change.metric = is_old ? old_entry->second.headline : is_new ? new_entry->second.headline : "";
    const Series* const old_series = series_of(before_, key, change.metric);
    const Series* const new_series = series_of(now_, key, change.metric);
    if (old_series != nullptr) {
      change.before = median(old_series->units(true));
      change.before_count = old_series->launches.size();
    }
    if (new_series != nullptr) change.after = median(new_series->units(true));
    change.launches = launches_of(old_series, new_series);
    if (old_series != nullptr && new_series != nullptr) {
      add_pair(change, *old_series, *new_series);
    } else if (new_series != nullptr) {
      change.trend = Trend::added;
    } else {
      change.trend = Trend::missing;
      change.detail = is_new ? "\"" + change.metric + "\" is missing in a repetition" : why_not(measured_, key);
    }
    result_.changes.push_back(std::move(change));
  }

  std::vector<LaunchValue> launches_of(const Series* before, const Series* now) const {
    std::vector<LaunchValue> launches;
    for (const auto& [series, set] : {std::pair{before, &before_}, {now, &now_}}) {
      if (series == nullptr) continue;
      for (const auto& [name, values] : series->launches) {
        launches.push_back({set->launches.at(name).started, median(values), set == &now_});
      }
    }
    std::stable_sort(launches.begin(), launches.end(),
                     [](const auto& a, const auto& b) { return a.started < b.started; });
    return launches;
  }

  void add_pair(Change& change, const Series& before, const Series& now) {
    const auto x = before.units(true), y = now.units(true);
    change.after_count = y.size();
    if (sends_nothing(change.key, now_.ranks)) {
      change.trend = Trend::noisy;
      change.detail = "a collective of one rank sends no data";
      return;
    }
    const double sign = lower_is_better(change.metric) ? -1 : 1, size = std::abs(*change.before);
    const double scale = size > 0 ? size : 1;
    pairs_.emplace_back(result_.changes.size(), sign * hodges_lehmann(x, y, change_confidence).estimate / scale,
                        least_effect(change.metric, *change.before, options_.min_effect),
                        plan_.noise(change.key, change.metric, before, now));
    if (size > 0) change.percent = 100 * sign * pairs_.back().gain;
  }

  void judge() {
    if (const auto note = plan_.note()) result_.notes.push_back(*note);
    if (pairs_.empty()) return;
    const double rate = false_alarm / static_cast<double>(options_.comparisons);
    const Limits limits{rate / static_cast<double>(pairs_.size()), std::max(min_unjudged_loss, options_.min_effect)};
    std::vector<double> less, greater;
    for (const Pair& pair : pairs_) {
      less.push_back(normal_cdf(pair.z(limits.alpha)));
      greater.push_back(normal_cdf(-pair.z(limits.alpha)));
    }
    const auto worse = benjamini_hochberg(less, rate), better = benjamini_hochberg(greater, rate);
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      Change& change = result_.changes[pairs_[i].place];
      if (change.percent) {
        const double half = 100 * pairs_[i].margin((1 - change_confidence) / 2);
        std::tie(change.low, change.high) = std::pair(*change.percent - half, *change.percent + half);
      }
      decide(change, pairs_[i], worse[i], better[i], limits);
    }
  }

  void conclude();

  const Benchmarks& measured_;
  const Baseline now_;
  const Baseline& before_;
  const RegressionOptions& options_;
  const LaunchPlan plan_{before_, now_};
  std::vector<Pair> pairs_;
  Regression result_;
};

// Returns a text such as "launch (2), pcie (1)".
std::string counted(const std::map<std::string, std::size_t>& families) {
  std::vector<std::string> text;
  for (const auto& [family, count] : families) text.push_back(family + " (" + std::to_string(count) + ")");
  return joined(text);
}

void Comparison::conclude() {
  std::map<std::string, std::size_t> judged, inconclusive, noisy;  // by family: the number of benchmarks
  bool failed = false;
  std::size_t open = 0;
  for (const Change& change : result_.changes) {
    const std::string& family = change.key.family();
    failed = failed || change.trend == Trend::worse || change.trend == Trend::missing;
    if (change.trend == Trend::noisy) ++noisy[family];
    if (!change.before || !change.after || change.trend == Trend::noisy) continue;
    ++judged[family];
    ++result_.compared;
    if (change.trend == Trend::inconclusive) ++inconclusive[family], ++open;
  }
  const bool has_open_family = std::any_of(inconclusive.begin(), inconclusive.end(), [&](const auto& family) {
    return family.second == judged.at(family.first);
  });
  const bool undecided = has_open_family || 2 * open > result_.compared || result_.compared == 0;
  result_.exit_code = failed ? 1 : undecided ? 3 : 0;
  if (result_.compared == 0 && noisy.empty() && !failed) {
    throw InputError("nothing to compare: no benchmark has a value in both sets; check --results and --baseline");
  }
  if (!inconclusive.empty()) result_.notes.push_back("inconclusive: " + counted(inconclusive));
  if (!noisy.empty()) {
    result_.notes.push_back("not judged, since launches differ too much to show a loss of " +
                            percent_text(std::max(min_unjudged_loss, options_.min_effect)) + ": " + counted(noisy));
  }
  for (auto& note : notes_on_copies(now_, before_)) result_.notes.push_back(std::move(note));
}

}  // namespace

BaselinePair::BaselinePair(const Measured& measured, const Baseline& baseline)
    : BaselinePair(measured, baseline_of(measured.files), baseline) {}

BaselinePair::BaselinePair(const Measured& measured, Baseline of_now, const Baseline& baseline)
    : current(measured),
      now(std::move(of_now)),
      before(baseline),
      differences(shakedown::differences(now.facts, before.facts)) {}

Regression judge_regression(const Measured& current, const Baseline& baseline, const RegressionOptions& options) {
  if (current.files.empty()) throw InputError("no result files to compare; check --results");
  return judge_regression(BaselinePair(current, baseline), options);
}

Regression judge_launches(const Baseline& now, const Baseline& before, const RegressionOptions& options) {
  const Measured no_files(std::vector<Results>{});
  return judge_regression(BaselinePair(no_files, now, before), options);
}

Regression judge_regression(BaselinePair pair, const RegressionOptions& options) {
  if (!(options.min_effect > 0 && options.min_effect < 1)) {
    throw InputError("--min-effect must be above 0 and below 1, as in 0.05; see --help");
  }
  return Comparison(std::move(pair), options).judged();
}

namespace {

Finding finding_of(const Change& change) {
  Finding finding;
  finding.key = change.key;
  finding.metric = (change.metric.empty() ? "" : change.metric + "_") + "vs_baseline";
  finding.judgement = Judgement::baseline;
  classify(finding, Code::baseline, change.after_count);
  finding.unit = unit_of(change.metric);
  finding.source = "baseline";
  finding.value = change.after;
  finding.detail = change.detail;
  if (change.before) {
    finding.source += " " + number_text(*change.before) + " of " +
                      (change.before_count == 1 ? "1 launch" : std::to_string(change.before_count) + " launches");
  }
  if (change.before && change.limit_percent) {
    const bool falls = lower_is_better(change.metric);
    const double allowed = *change.limit_percent / 100 * std::abs(*change.before);
    finding.limit =
        falls ? Limit{LimitKind::max, *change.before + allowed} : Limit{LimitKind::min, *change.before - allowed};
  }
  if (change.percent) {
    finding.detail = fmt::format("{:+.1f} %", *change.percent) + (change.detail.empty() ? "" : "; " + change.detail);
  }
  switch (change.trend) {
    case Trend::worse: finding.status = Status::fail; break;
    case Trend::missing: finding.status = Status::missing; break;
    case Trend::inconclusive: finding.status = Status::inconclusive; break;
    default: break;
  }
  if (change.trend == Trend::noisy) finding.severity = Severity::info;
  return finding;
}

}  // namespace

std::vector<Finding> findings_of(const Regression& regression, const Measured& current) {
  std::vector<Finding> findings;
  int ranks = 0;
  for (const Results& file : current.files) ranks = std::max(ranks, file.context.world_size);
  for (const Change& change : regression.changes) {
    if (change.trend == Trend::added) continue;
    Finding finding = finding_of(change);
    if (const auto found = current.benchmarks.find(change.key); found != current.benchmarks.end()) {
      if (found->second.error() != nullptr) finding.wrong_ranks = found->second.error()->wrong_ranks;
      const auto rank = change.after ? slowest_rank(found->second) : std::nullopt;
      if (rank) finding.worst = culprit(found->second.context->ranks[static_cast<std::size_t>(*rank)]);
      if (rank && finding.status == Status::fail) name_offenders(finding, {*finding.worst});
    }
    if (!finding.good()) finding.next = measure_command(change.key, ranks);
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace shakedown
