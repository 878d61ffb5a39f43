#include "report/nagios.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "report/family_figures.hpp"
#include "thresholds/judge/headline.hpp"

namespace shakedown {
namespace {

const char* service_state(const Verdict& verdict) {
  if (verdict.state == State::fail) return "CRITICAL";
  if (verdict.exit_code == 0) return "OK";
  return verdict.state == State::inconclusive ? "WARNING" : "UNKNOWN";
}

// Returns 'label'=value;warning;critical. The range "715:" alerts below 715, and "505" above 505.
std::string performance_data(const Finding& finding) {
  const auto [value, limit] = finding.compared().value();
  return "'" + finding.key.family() + " " + finding.metric + "'=" + number_text(value) + ";;" +
         number_text(limit.value) + (limit.kind == LimitKind::min ? ":" : "");
}

}  // namespace

std::string nagios_line(const Verdict& verdict) {
  std::string line = "SHAKEDOWN " + std::string(service_state(verdict)) + ": " + text(headline_of(verdict));
  std::replace(line.begin(), line.end(), '|', '/');  // a '|' would begin the performance data
  std::vector<std::string> data;
  for (const FamilyFigure& figure : family_figures(verdict)) data.push_back(performance_data(*figure.finding));
  return line + (data.empty() ? "" : "|" + joined(data, " ")) + "\n";
}

}  // namespace shakedown
