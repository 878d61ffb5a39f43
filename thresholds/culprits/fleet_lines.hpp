// Compares the whole fleet with the reference, and its racks, leaves, firmware, drivers and hosts with each other.
// These lines never fail: a rack that is 2 % slower and 8 C hotter is no broken GPU. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/names.hpp"
#include "thresholds/findings/judge_options.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/rules/profile.hpp"
#include "thresholds/units/table.hpp"

namespace shakedown {

/// What GPUs have in common.
enum class Grouping { rack, leaf, firmware, driver, host };
constexpr auto words(Grouping) { return names("rack", "leaf", "firmware", "driver", "host"); }

/// The GPUs that have one thing in common, in one class of figures: how much faster each is than the median of the
/// fleet, as a part of it.
struct FleetLine {
  Grouping by = Grouping::rack;
  std::string group;  // which of them: "r7"
  std::string name;   // of the class: "gemm"
  std::size_t gpus = 0;
  double median = 0, p1 = 0, p99 = 0;
  double faster = 0;                         // its median than that of all other GPUs; below 0: slower
  std::optional<double> temperature_c = {};  // median
  std::optional<double> hotter_c = {};       // than that of all others
  bool slow = false, hot = false;            // more than such a group is by chance
};

/// "rack r7"
std::string group_text(const FleetLine&);

/// The median GPU over the rows of a class, against what the profile names.
struct FleetLevel {
  std::string name, metric;  // of the class
  std::size_t rows = 0;
  double better = 0;       // median over the rows, relative; below 0: worse
  bool reference = false;  // of the rules; else their limits
};

struct FleetLines {
  std::vector<FleetLevel> levels;
  std::vector<FleetLine> lines;  // of each kind and class the slow and hot ones first, then the slowest
};

/// The number of groups of one kind and class that are kept: 10,000 GPUs have 1,250 hosts.
inline constexpr std::size_t most_fleet_lines = 32;

/// `profile`: null if none is for this machine. Firmware and driver are what pre-flight read.
FleetLines fleet_lines(const Measured&, const UnitTable&, const Profile* profile, const Places&);

}  // namespace shakedown
