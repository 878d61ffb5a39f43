// A GPU's level in a class of figures is the median over the class of what each is relative to its own median in the
// first hour. An hour is low if the whole interval of Hodges and Lehmann between the first hour and it lies below the
// limit, and it is further off than 6 times what one hour differs from the next: rounds of an hour are not
// independent, hours nearly are. The six are for the thousands of hours, classes and GPUs that are looked at.
#include "thresholds/soak/courses.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/soak/watch_rounds.hpp"
#include "thresholds/units/classes.hpp"

namespace shakedown {
namespace {

constexpr double least_loss = 0.015,
                 least_loss_of_all = 0.03;  // of one GPU, whose class may say more; of what all share
constexpr double sigmas = 6, confidence = 0.98, hour = 3600, bins = 96;

class Follower {
 public:
  Follower(const Watch& watch, const std::vector<std::string>& units)
      : watch_(watch), rounds_(watch.rounds), units_(units) {}

  std::vector<Course> follow() const {
    std::vector<Course> courses;
    struct Sum {
      std::vector<std::vector<double>> levels;  // by round, of each figure
      double limit = 0;
      bool through_host = false;
    };
    std::map<std::pair<std::string, std::string>, Sum> sums;  // class, unit
    for (const std::string& name : watch_.names(&WatchRound::figures)) {
      const auto blank = name.find(' ');
      const auto key = name.substr(0, blank), metric = name.substr(blank + 1);
      const bool shared = is_shared(key, metric);
      const auto peers = peer_class(key, metric);
      if (shared ? lower_is_better(metric) : !peers) continue;
      const Aspect aspect = aspect_of(key, metric);
      const double sign = lower_is_better(metric) ? -1 : 1;
      const double limit = shared ? least_loss_of_all : std::max(least_loss, peers->class_effect);
      for (const std::string& unit : shared ? std::vector<std::string>{""} : units_) {
        std::vector<std::pair<std::size_t, double>> values;
        for (std::size_t i = 0; i < rounds_.size(); ++i) {
          const auto value =
              shared ? rounds_[i].shared_figure(name) : rounds_[i].value(&WatchRound::figures, name, unit);
          if (value && *value > 0) values.emplace_back(i, *value);
        }
        std::vector<double> at_first;
        for (const auto& [i, value] : values) {
          if (in_first_hour(i)) at_first.push_back(value);
        }
        if (at_first.empty()) continue;
        const double usual = median(at_first);
        for (const std::string& of : classes_of(key)) {
          if (!key_part(of, "end").empty()) continue;  // copies are followed by link
          Sum& sum = sums[{of, unit}];
          sum.levels.resize(rounds_.size());
          sum.limit = std::max(sum.limit, limit);
          sum.through_host = sum.through_host || aspect == Aspect::pcie || aspect == Aspect::processor;
          for (const auto& [i, value] : values) sum.levels[i].push_back(sign * std::log(value / usual));
        }
      }
    }
    for (const auto& [where, sum] : sums) {
      Course course{where.first, where.second, {}, {}, std::nullopt, {}, sum.limit};
      for (const auto& levels : sum.levels) {
        course.levels.push_back(levels.empty() ? std::nullopt : std::optional(std::expm1(median(levels))));
        course.rows = std::max(course.rows, levels.size());
      }
      course.through_host = sum.through_host;
      measure(course);
      mark_low(course);
      courses.push_back(std::move(course));
    }
    return courses;
  }

 private:
  bool in_first_hour(std::size_t i) const { return rounds_[i].begin_s < watch_.hour_s(); }

  std::vector<double> of_hour(const Course& course, std::size_t which) const {
    std::vector<double> values;
    for (std::size_t i = 0; i < rounds_.size(); ++i) {
      if (course.levels[i] && hour_of(i) == which) values.push_back(*course.levels[i]);
    }
    return values;
  }

  std::size_t hour_of(std::size_t i) const { return static_cast<std::size_t>(rounds_[i].begin_s / watch_.hour_s()); }

  void measure(Course& course) const {
    const double span = std::max(rounds_.back().begin_s, 1.0), bin = std::max(watch_.hour_s() / 4, span / bins);
    std::map<std::size_t, std::vector<double>> by_bin, by_hour;
    for (std::size_t i = 0; i < rounds_.size(); ++i) {
      if (!course.levels[i]) continue;
      by_bin[static_cast<std::size_t>(rounds_[i].begin_s / bin)].push_back(*course.levels[i]);
      by_hour[hour_of(i)].push_back(*course.levels[i]);
    }
    course.hours.resize(hour_of(rounds_.size() - 1) + 1);
    for (const auto& [which, values] : by_hour) course.hours[which] = median(values);
    std::vector<double> x, y;
    for (const auto& [which, values] : by_bin) {
      x.push_back((static_cast<double>(which) + 0.5) * bin / hour);
      y.push_back(median(values));
    }
    constexpr double each_bound = 0.975;  // the interval has 95 %
    if (x.size() > 1) course.trend = theil_sen(x, y, each_bound);
  }

  /// How far medians of an hour are apart by chance: as the hours are from one another, and at least what follows from
  /// the rounds. By differences, which no drift and no single step moves.
  std::optional<double> noise_of(const Course& course) const {
    const auto steps_of = [](const std::vector<std::optional<double>>& levels) {
      std::vector<double> steps;
      for (std::size_t i = 1; i < levels.size(); ++i) {
        if (levels[i] && levels[i - 1]) steps.push_back(*levels[i] - *levels[i - 1]);
      }
      return steps;
    };
    constexpr std::size_t least = 3;
    const auto hours = steps_of(course.hours), rounds = steps_of(course.levels);
    if (hours.size() < least || rounds.size() < least) return std::nullopt;
    const double per_hour = static_cast<double>(rounds_.size()) / static_cast<double>(course.hours.size());
    const double of_a_median = 1.2533 / std::sqrt(std::max(1.0, per_hour));  // sqrt(pi / 2): of normal values
    return std::max(robust_sigma(hours), robust_sigma(rounds) * of_a_median) / std::sqrt(2.0);
  }

  void mark_low(Course& course) const {
    const auto noise = noise_of(course);
    if (!noise) return;
    const auto first = of_hour(course, 0);
    for (std::size_t h = 1; h < course.hours.size(); ++h) {
      if (!course.hours[h] || *course.hours[h] > -std::max(course.limit, sigmas * *noise)) continue;
      const auto shift = hodges_lehmann(first, of_hour(course, h), confidence);
      if (shift.high && *shift.high < -course.limit) course.low.push_back(h);
    }
  }

  const Watch& watch_;
  const std::vector<WatchRound>& rounds_;
  const std::vector<std::string>& units_;
};

}  // namespace

std::vector<Course> follow_courses(const Watch& watch, const std::vector<std::string>& units) {
  return Follower(watch, units).follow();
}

}  // namespace shakedown
