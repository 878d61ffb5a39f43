// The level of a GPU in a class of metrics is a median over the class, where each metric is divided by its own median
// in the first hour. An hour is low under two conditions. First, the whole Hodges-Lehmann interval of its shift from
// the first hour is below the limit. Second, the shift exceeds 6 times the noise from hour to hour. Hours are used
// because rounds within an hour are not independent, while hours nearly are. The factor is 6 because thousands of
// hours, classes and GPUs are tested.
#include "thresholds/soak/trends.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/soak/soak_rounds.hpp"
#include "thresholds/units/classes.hpp"

namespace shakedown {
namespace {

constexpr double min_loss = 0.015,
                 min_loss_of_all = 0.03;  // for one GPU, unless its class has a larger limit; for all GPUs together
constexpr double sigmas = 6, confidence = 0.98, hour = 3600, bins = 96;

class TrendFinder {
 public:
  TrendFinder(const Soak& soak, const std::vector<std::string>& units)
      : soak_(soak), rounds_(soak.rounds), units_(units) {}

  std::vector<SoakTrend> follow() const {
    std::vector<SoakTrend> trends;
    struct Sum {
      std::vector<std::vector<double>> levels;  // by metric: its levels, by round
      double limit = 0;
      bool through_host = false;
    };
    std::map<std::pair<std::string, std::string>, Sum> sums;  // by class and unit
    for (const FigureName& name : soak_.names(&SoakRound::figures)) {
      const Key key = name.key();
      const std::string metric(name.word());
      const bool shared = is_shared(key, metric);
      const auto peers = peer_class(key, metric);
      if (shared ? lower_is_better(metric) : !peers) continue;
      const Aspect aspect = aspect_of(key, metric);
      const double sign = lower_is_better(metric) ? -1 : 1;
      const double limit = shared ? min_loss_of_all : std::max(min_loss, peers->class_effect);
      for (const std::string& unit : shared ? std::vector<std::string>{""} : units_) {
        std::vector<std::pair<std::size_t, double>> values;
        for (std::size_t i = 0; i < rounds_.size(); ++i) {
          const auto value =
              shared ? rounds_[i].shared_figure(name) : rounds_[i].value(&SoakRound::figures, name, unit);
          if (value && *value > 0) values.emplace_back(i, *value);
        }
        std::vector<double> at_first;
        for (const auto& [i, value] : values) {
          if (in_first_hour(i)) at_first.push_back(value);
        }
        if (at_first.empty()) continue;
        const double usual = median(at_first);
        for (const Key& of : classes_of(key)) {
          if (!of.part("end").empty()) continue;  // a copy belongs to its link
          Sum& sum = sums[{of, unit}];
          sum.levels.resize(rounds_.size());
          sum.limit = std::max(sum.limit, limit);
          sum.through_host = sum.through_host || aspect == Aspect::pcie || aspect == Aspect::processor;
          for (const auto& [i, value] : values) sum.levels[i].push_back(sign * std::log(value / usual));
        }
      }
    }
    for (const auto& [where, sum] : sums) {
      SoakTrend trend{where.first, where.second, {}, {}, std::nullopt, {}, sum.limit};
      for (const auto& levels : sum.levels) {
        trend.levels.push_back(levels.empty() ? std::nullopt : std::optional(std::expm1(median(levels))));
        trend.rows = std::max(trend.rows, levels.size());
      }
      trend.through_host = sum.through_host;
      measure(trend);
      mark_low(trend);
      trends.push_back(std::move(trend));
    }
    return trends;
  }

 private:
  bool in_first_hour(std::size_t i) const { return rounds_[i].begin_s < soak_.hour_s(); }

  std::vector<double> of_hour(const SoakTrend& trend, std::size_t which) const {
    std::vector<double> values;
    for (std::size_t i = 0; i < rounds_.size(); ++i) {
      if (trend.levels[i] && hour_of(i) == which) values.push_back(*trend.levels[i]);
    }
    return values;
  }

  std::size_t hour_of(std::size_t i) const { return static_cast<std::size_t>(rounds_[i].begin_s / soak_.hour_s()); }

  void measure(SoakTrend& trend) const {
    const double span = std::max(rounds_.back().begin_s, 1.0), bin = std::max(soak_.hour_s() / 4, span / bins);
    std::map<std::size_t, std::vector<double>> by_bin, by_hour;
    for (std::size_t i = 0; i < rounds_.size(); ++i) {
      if (!trend.levels[i]) continue;
      by_bin[static_cast<std::size_t>(rounds_[i].begin_s / bin)].push_back(*trend.levels[i]);
      by_hour[hour_of(i)].push_back(*trend.levels[i]);
    }
    trend.hours.resize(hour_of(rounds_.size() - 1) + 1);
    for (const auto& [which, values] : by_hour) trend.hours[which] = median(values);
    std::vector<double> x, y;
    for (const auto& [which, values] : by_bin) {
      x.push_back((static_cast<double>(which) + 0.5) * bin / hour);
      y.push_back(median(values));
    }
    constexpr double each_bound = 0.975;  // so that the interval has 95 % confidence
    if (x.size() > 1) trend.fit = theil_sen(x, y, each_bound);
  }

  /// Returns the noise of an hourly median. The noise is computed from the differences of successive hours, which drift
  /// and single steps hardly affect, but it is at least the value that the rounds predict.
  std::optional<double> noise_of(const SoakTrend& trend) const {
    const auto steps_of = [](const std::vector<std::optional<double>>& levels) {
      std::vector<double> steps;
      for (std::size_t i = 1; i < levels.size(); ++i) {
        if (levels[i] && levels[i - 1]) steps.push_back(*levels[i] - *levels[i - 1]);
      }
      return steps;
    };
    constexpr std::size_t min_steps = 3;
    const auto hours = steps_of(trend.hours), rounds = steps_of(trend.levels);
    if (hours.size() < min_steps || rounds.size() < min_steps) return std::nullopt;
    const double per_hour = static_cast<double>(rounds_.size()) / static_cast<double>(trend.hours.size());
    // sqrt(pi / 2), for values with a normal distribution.
    const double of_a_median = 1.2533 / std::sqrt(std::max(1.0, per_hour));
    return std::max(robust_sigma(hours), robust_sigma(rounds) * of_a_median) / std::sqrt(2.0);
  }

  void mark_low(SoakTrend& trend) const {
    const auto noise = noise_of(trend);
    if (!noise) return;
    const auto first = of_hour(trend, 0);
    for (std::size_t h = 1; h < trend.hours.size(); ++h) {
      if (!trend.hours[h] || *trend.hours[h] > -std::max(trend.limit, sigmas * *noise)) continue;
      const auto shift = hodges_lehmann(first, of_hour(trend, h), confidence);
      if (shift.high && *shift.high < -trend.limit) trend.low.push_back(h);
    }
  }

  const Soak& soak_;
  const std::vector<SoakRound>& rounds_;
  const std::vector<std::string>& units_;
};

}  // namespace

std::vector<SoakTrend> find_trends(const Soak& soak, const std::vector<std::string>& units) {
  return TrendFinder(soak, units).follow();
}

}  // namespace shakedown
