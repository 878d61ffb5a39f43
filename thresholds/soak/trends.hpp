// The trend of each GPU's metrics over the rounds of a soak. Each metric is relative to its own first hour.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/statistics.hpp"

namespace shakedown {

struct Soak;

/// The trend of one class of metrics of a GPU, or of all GPUs together.
struct SoakTrend {
  std::string name;                           // name of the class: "gemm/dtype:bf16"
  std::string unit;                           // empty for all GPUs together
  std::vector<std::optional<double>> levels;  // by round: level relative to the first hour; negative is worse
  std::vector<std::optional<double>> hours;   // by hour (Soak::hour_s): median of the levels
  /// Slope per hour (3600 s) with 95 % bounds; nullopt if there are too few rounds.
  std::optional<TheilSen> fit;
  /// Indices of `hours` that are significantly worse than the first hour, by at least `limit`.
  std::vector<std::size_t> low;
  double limit = 0;
  std::size_t rows = 0;       // the largest number of metrics in a round
  bool through_host = false;  // true: other work on the memory or CPU of the host affects the metrics
};

/// Returns the trends of each of these units, and of all together, by class. Needs at least one round.
std::vector<SoakTrend> find_trends(const Soak&, const std::vector<std::string>& units);

}  // namespace shakedown
