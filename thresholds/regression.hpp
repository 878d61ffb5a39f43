// Comparison with stored results of the same machine kind: what became slower? First form: medians and one tolerance.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "thresholds/results.hpp"
#include "thresholds/verdict.hpp"

namespace shakedown {

enum class Trend { better, same, worse, missing, added };
std::string_view name(Trend);  // "new" for added

struct Change {
  std::string key, metric;
  std::optional<double> before, after;
  std::optional<double> percent;  // (after - before) / before, in %
  Trend trend = Trend::same;
  std::string detail;  // why it is missing
};

struct Regression {
  std::vector<Change> changes;  // of every benchmark in either set, by key
  std::size_t compared = 0;     // benchmarks with a value in both sets
  int exit_code = 0;            // 1 if anything is worse or missing, or failed now
};

inline constexpr double default_tolerance = 0.05;

/// A latency that changed by less is the same whatever the percentage: timers and launches are not finer.
inline constexpr double latency_floor_us = 2.0;

/// Errors: InputError naming field and both values where the two sets cannot be compared: device, backend, tier, number
/// of ranks or hosts, a version (driver, CUDA, cuBLASLt, NCCL), NVLS, a tuning variable or build type differ. A file of
/// either set with an injected fault that is not allowed, sets with nothing to compare although nothing is missing, and
/// a tolerance outside [0, 1) are InputErrors too.
Regression judge_regression(const std::vector<Results>& current, const std::vector<Results>& baseline,
                            double tolerance = default_tolerance, bool allow_faults = false);

/// One finding for each benchmark of the baseline, for a verdict that is also held against a baseline.
std::vector<Finding> findings_of(const Regression&, double tolerance, int ranks);

}  // namespace shakedown
