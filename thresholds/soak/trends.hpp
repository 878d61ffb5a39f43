// The trend of each GPU's metrics over the rounds of a soak, each relative to its own first hour.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/statistics.hpp"

namespace shakedown {

struct Soak;

/// The trend of one class of metrics of a GPU, or of all GPUs together.
struct SoakTrend {
  std::string name;                           // of the class: "gemm/dtype:bf16"
  std::string unit;                           // empty for all GPUs together
  std::vector<std::optional<double>> levels;  // by round: relative to its own first hour, negative is worse
  std::vector<std::optional<double>> hours;   // medians, by Soak::hour_s
  std::optional<TheilSen> fit;                // per hour (3600 s), 95 % bounds; nullopt for too few rounds
  std::vector<std::size_t> low;  // indices of `hours` that are significantly worse than the first by `limit`
  double limit = 0;
  std::size_t rows = 0;       // the largest number of metrics in a round
  bool through_host = false;  // affected by other work of the host's memory or CPU
};

/// Returns the trends of each of these units and of all together, by class. Needs at least one round.
std::vector<SoakTrend> find_trends(const Soak&, const std::vector<std::string>& units);

}  // namespace shakedown
