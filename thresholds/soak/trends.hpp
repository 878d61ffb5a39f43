// How the figures of each GPU go over the rounds of a soak, each relative to its own first hour.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/statistics.hpp"

namespace shakedown {

struct Soak;

/// How one class of figures of a GPU, or of all together, went over time.
struct SoakTrend {
  std::string name;                           // of the class: "gemm/dtype:bf16"
  std::string unit;                           // empty: all share it
  std::vector<std::optional<double>> levels;  // by round: relative to its own first hour, negative is worse
  std::vector<std::optional<double>> hours;   // medians, by Soak::hour_s
  std::optional<TheilSen> fit;                // per hour (3600 s), bounds of 95 %; nothing: too few rounds
  std::vector<std::size_t> low;               // of `hours`: surely worse than the first one by `limit`
  double limit = 0;
  std::size_t rows = 0;       // figures that it has in a round, at most
  bool through_host = false;  // other work of the host's memory or processors shows in it
};

/// Of each of these units and of what all share, by class. There is a round at least.
std::vector<SoakTrend> find_trends(const Soak&, const std::vector<std::string>& units);

}  // namespace shakedown
