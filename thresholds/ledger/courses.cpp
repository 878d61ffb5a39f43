#include "thresholds/ledger/courses.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "thresholds/history/baseline.hpp"
#include "thresholds/history/regression.hpp"

namespace shakedown {
namespace {

/// Returns values of a course as launches of a baseline. A GPU keeps its name if it moves, but its host changes.
Baseline launches_of(const Course& course, std::size_t begin, std::size_t end) {
  Baseline baseline;
  baseline.ranks = 2;  // more than one rank, so that collectives are compared too
  BaselineBenchmark& benchmark = baseline.benchmarks[course.key.text()];
  benchmark.headline = course.metric;
  for (std::size_t i = begin; i < end; ++i) {
    const CourseValue& value = course.values[i];
    const std::string name = std::to_string(i);
    baseline.launches[name] = {value.run->time, {value.run->node}, {course.unit}};
    benchmark.series[course.metric].launches[name] = {value.value};
  }
  return baseline;
}

/// Returns where the rank test of the values before against those after is the clearest (Pettitt, 1979).
std::size_t likely_change(const Course& course, std::size_t begin, std::size_t end) {
  const auto value = [&](std::size_t i) { return course.values[i].value; };
  std::size_t likely = begin + 1;
  double most = -1, higher = 0;  // number of pairs whose later value is higher, minus those whose later value is lower
  for (std::size_t at = begin + 1; at < end; ++at) {
    for (std::size_t i = begin; i < end; ++i)  // moves the value at - 1 to the earlier values
      higher += value(i) > value(at - 1) ? 1 : value(i) < value(at - 1) ? -1 : 0;
    const double pairs = static_cast<double>(at - begin) * static_cast<double>(end - at);
    const double size = std::abs(higher) / std::sqrt(pairs);
    if (size > most) std::tie(most, likely) = std::pair(size, at);
  }
  return likely;
}

std::vector<std::string> software_changes(const LedgerEvent& before, const LedgerEvent& after) {
  std::vector<std::string> changes;
  for (const auto& [name, version] : after.software) {
    const auto old = before.software.find(name);
    if (old != before.software.end() && old->second != version)
      changes.push_back(name + " " + old->second + " -> " + version);
  }
  return changes;
}

/// Divides a part of the course at its most likely change, if the change is proven, and then divides both sides.
void find_changes(Course& course, std::size_t begin, std::size_t end, std::size_t comparisons) {
  if (end - begin < 2) return;
  const std::size_t at = likely_change(course, begin, end);
  const Regression judged =
      judge_launches(launches_of(course, at, end), launches_of(course, begin, at), {.comparisons = comparisons});
  const Change& change = judged.changes.front();
  if (change.trend != Trend::worse && change.trend != Trend::better) return;
  find_changes(course, begin, at, comparisons);
  course.changes.push_back({at, change, software_changes(*course.values[at - 1].run, *course.values[at].run)});
  find_changes(course, at, end, comparisons);
}

}  // namespace

std::vector<Course> courses_of(const std::vector<LedgerEvent>& events, const CourseFilter& is_selected) {
  std::map<std::pair<std::string, FigureName>, Course> by_name;  // by unit and figure
  const auto add = [&](const LedgerEvent& run, const std::string& unit, const FigureName& figure, double value) {
    Course& course = by_name[{unit, figure}];
    if (course.unit.empty()) {
      course.unit = unit;
      course.key = figure.key();
      course.metric = figure.word();
    }
    if (is_selected(unit, run.node, course.key, course.metric)) course.values.push_back({&run, value});
  };
  for (const LedgerEvent& run : events) {
    if (run.kind != EventKind::run || run.outcome == NodeState::undecided) continue;
    for (const auto& [figure, value] : run.figures.shared) add(run, run.node, figure, value);
    for (const auto& [figure, values] : run.figures.by_gpu) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::string id = run.gpus[i].id();
        if (!values[i]) continue;
        add(run, id.empty() ? run.node + " " + std::to_string(run.gpus[i].slot) : id, figure, *values[i]);
      }
    }
  }
  std::vector<Course> courses;
  std::size_t comparisons = 0;
  for (auto& [name, course] : by_name) {
    if (course.values.empty()) continue;
    comparisons += course.values.size() - 1;
    courses.push_back(std::move(course));
  }
  for (Course& course : courses) find_changes(course, 0, course.values.size(), comparisons);
  return courses;
}

}  // namespace shakedown
