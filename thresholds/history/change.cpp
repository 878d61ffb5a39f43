// Compares values that alternate. The rank test assumes no shape of their noise.
#include "thresholds/history/change.hpp"

#include <algorithm>
#include <cmath>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "thresholds/catalogue/metrics.hpp"

namespace shakedown {
namespace {

/// The values of both sides. `sign` is chosen so that a larger value is better.
struct Turns {
  std::vector<double> before, after;
  double sign = 1, scale = 1;  // value = sign * figure; scale: the median before
  double effect = 0;           // smallest relative change to report
  HodgesLehmann change;        // relative change; negative: worse
  MannWhitney test;

  bool is_same() const {
    return change.estimate > -effect && change.low && *change.low > -2 * effect && change.high &&
           *change.high < 2 * effect;
  }

  // Returns the relative standard deviation of a value; 0 if it cannot be computed.
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

Turns turns_of(const std::string& metric, std::vector<double> before, std::vector<double> after, double min_effect) {
  Turns turns;
  turns.before = std::move(before);
  turns.after = std::move(after);
  turns.sign = lower_is_better(metric) ? -1 : 1;
  turns.effect = least_effect(metric, median(turns.before), min_effect);
  if (const double size = std::abs(median(turns.before)); size > 0) turns.scale = size;
  for (auto* side : {&turns.before, &turns.after}) {
    for (double& value : *side) value *= turns.sign;
  }
  turns.test = mann_whitney_u(turns.before, turns.after);
  turns.change = hodges_lehmann(turns.before, turns.after, change_confidence);
  turns.change.estimate /= turns.scale;
  if (turns.change.low) turns.change.low = *turns.change.low / turns.scale;
  if (turns.change.high) turns.change.high = *turns.change.high / turns.scale;
  return turns;
}

void explain_inconclusive(Change& change, const Turns& turns, double level) {
  const double to_see = std::max(2 * turns.effect, std::abs(turns.change.estimate)), sigma = turns.sigma();
  const std::size_t smaller = std::min(turns.before.size(), turns.after.size());
  change.needed = std::max(sample_size(to_see, sigma, level, change_power), smaller + 1);
  const std::string have = std::to_string(turns.before.size()) + " and " + std::to_string(turns.after.size()) +
                           " repetitions, " + std::to_string(*change.needed) + " of each are needed to decide";
  const bool few = smaller < sample_size(to_see, 0, level, change_power);
  change.detail = few ? "too few: " + have : "too noisy (" + percent_text(sigma) + "): " + have;
}

}  // namespace

double least_effect(const std::string& metric, double before, double min_effect) {
  const double size = std::abs(before);
  return metric == "latency_us" && size > 0 ? std::max(min_effect, latency_floor_us / size) : min_effect;
}

Change judge_change(const std::string& key, const std::string& metric, const std::vector<double>& before,
                    const std::vector<double>& after, double min_effect, double level) {
  const Turns turns = turns_of(metric, before, after, min_effect);
  Change change;
  change.key = Key(key);
  change.metric = metric;
  change.before = median(before);
  change.after = median(after);
  change.before_count = before.size();
  change.after_count = after.size();
  if (median(before) != 0) change.percent = 100 * turns.sign * turns.change.estimate;
  const auto& low = turns.sign > 0 ? turns.change.low : turns.change.high;
  const auto& high = turns.sign > 0 ? turns.change.high : turns.change.low;
  if (low) change.low = 100 * turns.sign * *low;
  if (high) change.high = 100 * turns.sign * *high;
  if (turns.test.p_less <= level && turns.change.estimate <= -turns.effect) {
    change.trend = Trend::worse;
  } else if (turns.test.p_greater <= level && turns.change.estimate >= turns.effect) {
    change.trend = Trend::better;
  } else if (turns.is_same()) {
    change.trend = Trend::same;
  } else {
    change.trend = Trend::inconclusive;
    explain_inconclusive(change, turns, level);
  }
  return change;
}

}  // namespace shakedown
