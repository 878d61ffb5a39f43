// The change of one figure between old and new values. The functions are pure. docs/statistics.md explains the rules.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/key.hpp"
#include "base/names.hpp"

namespace shakedown {

/// noisy: the change is not worse, but a loss of `min_unjudged_loss` would not be detected. missing: only the baseline
/// has a value. added: only the new measurement has one.
enum class Trend { better, same, worse, inconclusive, noisy, missing, added };
constexpr auto words(Trend) { return names("better", "same", "worse", "inconclusive", "not judged", "missing", "new"); }

/// One launch of a benchmark.
struct LaunchValue {
  std::string started;  // UTC, ISO 8601
  double value = 0;     // median of its repetitions
  bool is_new = false;  // true for a new launch, false for one of the baseline
};

struct Change {
  Key key;
  std::string metric;
  std::optional<double> before, after;            // medians of the old and the new values
  std::size_t before_count = 0, after_count = 0;  // number of independent values on each side
  std::optional<double> percent;                  // estimated change, in % of before
  std::optional<double> low, high;                // its 95 % confidence interval, in %
  std::optional<double> limit_percent;            // the smallest loss that would be reported as worse
  Trend trend = Trend::same;
  std::optional<std::size_t> needed;  // number of launches that each side needs for a decision
  std::string detail;                 // why it is missing, inconclusive or not judged
  std::vector<LaunchValue> launches;  // launches of both sides, by time
};

/// The smallest relative change to report by default.
inline constexpr double default_min_effect = 0.01;

/// In a comparison without a change, this is the probability that any figure is called worse. If there are changes, it
/// is the fraction of figures that are wrongly called worse. The same is true for better.
inline constexpr double false_alarm = 0.01;

/// The confidence of the interval of a change, and the probability to find a change that matters.
inline constexpr double change_confidence = 0.95, change_power = 0.95;

/// Smaller changes of a latency are ignored, because timers and launches are not more precise.
inline constexpr double latency_floor_us = 2.0;

/// Returns the smallest relative change to report: `min_effect`, or for a latency of `before` us the relative size of
/// `latency_floor_us` if that is larger.
double least_effect(const std::string& metric, double before, double min_effect);

/// Returns the change of a figure whose old and new values alternated, by a rank test (Mann and Whitney, 1947) at
/// `level`. The values must be independent. "Same" means that a gain and a loss of twice the effect are both excluded.
Change judge_change(const std::string& key, const std::string& metric, const std::vector<double>& before,
                    const std::vector<double>& after, double min_effect = default_min_effect,
                    double level = false_alarm);

}  // namespace shakedown
