// The values that a figure can have on a device, by its unit, by physics and by the data sheet.
#pragma once

#include <cmath>
#include <optional>
#include <string>

#include "base/backend.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/rules/profile.hpp"

namespace shakedown {

/// The shortest possible latency of remote memory. NVLink and the fabric of a GPU take at least 0.5 us, and a launch
/// takes some us.
inline constexpr double min_latency_us = 0.3;

struct Possible {
  ValueRange range = ValueRange::any;
  double least = -HUGE_VAL;
  std::optional<double> ceiling;
};

/// The device that has a figure, and the run in which it has it.
struct MeasuredDevice {
  Backend backend;
  Scale scale;
  const RankFacts& facts;
  const Profile* profile;
};

/// Returns the possible values of a metric; `known` is its row of the catalogue, or null.
Possible possible_values(const Key&, const std::string& metric, const Metric* known, const MeasuredDevice&);

/// Returns the rate of the widest PCIe link of all GPUs in one direction; nullopt if pre-flight has not read it.
std::optional<double> pcie_gb_per_s(const Benchmarks&);

}  // namespace shakedown
