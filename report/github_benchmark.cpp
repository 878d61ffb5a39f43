// Selects the values for the long-term history.
#include "report/github_benchmark.hpp"

#include <cmath>
#include <set>

#include "base/archive.hpp"

namespace shakedown {
namespace {

using nlohmann::ordered_json;

bool is_throughput(const std::string& metric) {
  const std::string unit = unit_of(metric);
  return !lower_is_better(metric) && (unit == "TFLOPS" || unit == "GB/s" || unit == "tokens/s");
}

}  // namespace

std::string github_benchmark_json(const Verdict& verdict) {
  ordered_json entries = ordered_json::array();
  std::set<std::string> names;
  const auto add = [&](const std::string& key, const std::string& metric, double value, const std::string& extra) {
    const std::string name = key + " " + metric;
    if (!is_throughput(metric) || !std::isfinite(value) || !names.insert(name).second) return;
    entries.push_back({{"name", name}, {"unit", unit_of(metric)}, {"value", value}, {"extra", extra}});
  };
  const std::string machine = "profile " + verdict.profile + ", " + std::to_string(verdict.ranks) + " ranks";
  for (const Finding& finding : verdict.findings) {
    const bool is_value =
        !finding.limit || (finding.limit->kind != LimitKind::spread_max && finding.limit->kind != LimitKind::cv_max);
    if (finding.judgement != Judgement::rule || finding.status == Status::invalid || !finding.value || !is_value)
      continue;
    add(finding.key, finding.metric, *finding.value, machine);
  }
  for (const Unjudged& point : verdict.unjudged) {
    if (point.value) add(point.key, point.metric, *point.value, machine);
  }
  return text_of_document(entries, 1) + "\n";
}

}  // namespace shakedown
