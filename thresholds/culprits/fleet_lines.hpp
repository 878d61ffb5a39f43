// Compares the whole fleet with the reference, and its racks, leaf switches, firmware, drivers and hosts with each
// other. These lines never fail: a rack that is 2 % slower and 8 C hotter is not a broken GPU. Pure.
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

/// A property that GPUs share.
enum class Grouping { rack, leaf, firmware, driver, host };
constexpr auto words(Grouping) { return names("rack", "leaf", "firmware", "driver", "host"); }

/// A group of GPUs with the same property in one class of figures, and its relative difference from the fleet.
struct FleetLine {
  Grouping by = Grouping::rack;
  std::string group;  // name of the group: "r7"
  std::string name;   // of the class: "gemm"
  std::size_t gpus = 0;
  double median = 0, p1 = 0, p99 = 0;
  double faster = 0;                         // its median relative to that of all other GPUs; below 0: slower
  std::optional<double> temperature_c = {};  // median
  std::optional<double> hotter_c = {};       // relative to the median of all others
  bool slow = false, hot = false;            // larger than chance explains
};

/// Returns "rack r7".
std::string group_text(const FleetLine&);

/// The median GPU over the rows of a class, relative to the reference of the profile.
struct FleetLevel {
  std::string name, metric;  // of the class
  std::size_t rows = 0;
  double better = 0;       // median over the rows, relative; below 0: worse
  bool reference = false;  // of the rules; otherwise their limits
};

struct FleetLines {
  std::vector<FleetLevel> levels;
  std::vector<FleetLine> lines;  // of each kind and class: the slow and hot groups first, then the slowest
};

/// The number of groups to keep for each kind and class: 10,000 GPUs have 1,250 hosts.
inline constexpr std::size_t most_fleet_lines = 32;

/// `profile` is null without a profile for the machine. Firmware and driver are those of pre-flight.
FleetLines fleet_lines(const Measured&, const UnitTable&, const Profile* profile, const Places&);

}  // namespace shakedown
