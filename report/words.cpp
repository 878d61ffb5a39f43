// Decides the wording of cells. Tested by tests/terminal_test.cpp and tests/report_test.cpp.
#include "report/words.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shakedown {
namespace {

constexpr std::size_t widest_remark = 24;

bool is_remark(const Finding& finding) {
  return finding.status == Status::pass && finding.metric.empty() && !finding.detail.empty();
}

}  // namespace

std::string joined_words(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : a + " " + b;
}

std::string quantity_text(double value, const std::string& unit) { return joined_words(number_text(value), unit); }

std::string value_text(const Finding& finding) {
  if (finding.value) return quantity_text(*finding.value, finding.unit);
  if (!is_remark(finding)) return "-";
  return finding.detail.size() <= widest_remark ? finding.detail : "see below";
}

std::string value_text(const std::optional<double>& value, const std::string& metric) {
  return value ? quantity_text(*value, unit_of(metric)) : "-";
}

bool is_long_remark(const Finding& finding) {
  return is_remark(finding) && !finding.value && finding.detail.size() > widest_remark;
}

std::string limit_text(const Finding& finding) {
  return finding.limit ? joined_words(finding.limit_name, number_text(*finding.limit)) : "-";
}

std::string worst_text(const Finding& finding) {
  if (!finding.worst) return "-";
  const std::string where = text(*finding.worst);
  return finding.offender_count > 1 ? where + " +" + std::to_string(finding.offender_count - 1) : where;
}

std::string status_text(const Finding& finding) {
  const std::string word(name(finding.status));
  return finding.good() || finding.counts() ? word : std::string(name(finding.severity)) + ": " + word;
}

std::string change_text(const Change& change) {
  if (!change.percent) return "-";
  const std::string estimate = fmt::format("{:+.1f} %", *change.percent);
  return change.low && change.high ? estimate + fmt::format(" ({:+.1f} to {:+.1f})", *change.low, *change.high)
                                   : estimate;
}

std::string count_text(const Change& change) {
  if (change.before_count == 0 && change.after_count == 0) return "-";
  return std::to_string(change.before_count) + ", " + std::to_string(change.after_count);
}

std::string regression_line(const Regression& regression) {
  const auto count = [&](Trend trend) {
    return std::to_string(std::count_if(regression.changes.begin(), regression.changes.end(),
                                        [&](const Change& change) { return change.trend == trend; }));
  };
  return "REGRESSION: " + count(Trend::worse) + " worse, " + count(Trend::missing) + " missing, " +
         count(Trend::inconclusive) + " inconclusive, " + std::to_string(regression.compared) +
         " compared (minimal effect " + number_text(100 * regression.min_effect) + " %)";
}

}  // namespace shakedown
