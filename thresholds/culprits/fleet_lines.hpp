// Compares the figures of the whole fleet with the reference. This file also groups the GPUs of the fleet by rack, leaf
// switch, firmware version, driver and host, and compares the figures of these groups with each other. The lines of
// this file never fail a run, because a rack that is 2 % slower and 8 C hotter is not a broken GPU. The functions are
// pure.
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

/// A property that several GPUs share.
enum class Grouping { rack, leaf, firmware, driver, host };
constexpr auto words(Grouping) { return names("rack", "leaf", "firmware", "driver", "host"); }

/// A group of GPUs that share a property, and its difference from the fleet in one class of figures.
struct FleetLine {
  Grouping by = Grouping::rack;
  std::string group;  // name of the group, such as "r7"
  std::string name;   // name of the class, such as "gemm"
  std::size_t gpus = 0;
  double median = 0, p1 = 0, p99 = 0;
  /// Relative difference of its median from that of all other GPUs; below 0: slower.
  double faster = 0;
  std::optional<double> temperature_c = {};  // median temperature
  std::optional<double> hotter_c = {};       // difference of the median temperature from that of all others
  bool slow = false, hot = false;            // true if the difference is larger than chance explains
};

/// Returns the name of the group, such as "rack r7".
std::string group_text(const FleetLine&);

/// How far the median GPU is from the reference of the profile, over the rows of a class.
struct FleetLevel {
  std::string name, metric;  // name and metric of the class
  std::size_t rows = 0;
  double better = 0;       // relative difference, as the median over the rows; below 0: worse
  bool reference = false;  // true: compared with references; false: compared with limits
};

struct FleetLines {
  std::vector<FleetLevel> levels;
  std::vector<FleetLine> lines;  // for each kind and class: slow and hot groups first, then the slowest of the others
};

/// The maximum number of groups for each kind and class. 10,000 GPUs have 1,250 hosts.
inline constexpr std::size_t max_fleet_lines = 32;

/// `profile` is null if no profile describes the machine. Firmware and driver are those that pre-flight has read.
FleetLines fleet_lines(const Measured&, const UnitTable&, const Profile* profile, const Places&);

}  // namespace shakedown
