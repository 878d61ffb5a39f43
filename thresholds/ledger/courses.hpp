// The course of each figure (its values over the runs of a ledger), and the runs at which it changed. The functions are
// pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "thresholds/history/change.hpp"
#include "thresholds/ledger/event.hpp"

namespace shakedown {

struct CourseValue {
  const LedgerEvent* run = nullptr;
  double value = 0;
};

/// A run from which on the values of a figure differ from the values before.
struct ChangePoint {
  std::size_t at = 0;  // index of the first value of the new level
  Change change;
  std::vector<std::string> software;  // versions that changed at this run: "driver 570.1 -> 580.2"
};

struct Course {
  std::string unit;  // serial number or UUID of the GPU; of a figure of all GPUs together, or without these, the node
  Key key;
  std::string metric;
  std::vector<CourseValue> values;  // by time
  std::vector<ChangePoint> changes;
};

/// Selects courses: by unit, node, key and metric.
using CourseFilter =
    std::function<bool(const std::string& unit, const std::string& node, const Key&, const std::string& metric)>;

/// Returns the courses that the filter selects, of runs that are good or bad. A change is judged as between two sets of
/// launches (thresholds/history/regression.hpp); the probability of any false change among all courses is at most
/// `false_alarm`.
std::vector<Course> courses_of(const std::vector<LedgerEvent>& events, const CourseFilter&);

}  // namespace shakedown
