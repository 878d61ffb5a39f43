#include "report/soak.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "report/words.hpp"

namespace shakedown {
namespace {

constexpr std::size_t max_columns = 6;

/// Returns "+0.3" or "-1.0"; zero is "0.0" without a sign.
std::string signed_text(double value, int digits) {
  const double scale = std::pow(10, digits), rounded = std::round(std::abs(value) * scale) / scale;
  return fmt::format("{}{:.{}f}", rounded == 0 ? "" : value < 0 ? "-" : "+", rounded, digits);
}

std::string change_of(double part) { return signed_text(100 * part, 1); }

std::string slope_text(const SoakTrend& trend) {
  if (!trend.fit || !trend.fit->low) return "-";
  const auto hundredths = [](double part) { return signed_text(100 * part, 2); };
  return hundredths(trend.fit->slope) + " (" + hundredths(*trend.fit->low) + " to " + hundredths(*trend.fit->high) +
         ")";
}

/// Returns the cell for the hours from `begin` to `end`, which shows the median of the values.
std::string column(const SoakTrend& trend, std::size_t begin, std::size_t end) {
  std::vector<double> levels;
  for (std::size_t h = begin; h < std::min(end, trend.hours.size()); ++h) {
    if (trend.hours[h]) levels.push_back(*trend.hours[h]);
  }
  return levels.empty() ? "-" : change_of(median(levels));
}

std::string name_of(const SoakJudgement& judged, const std::string& unit) {
  for (const Culprit& one : judged.units) {
    if (one.uuid.value_or(one.host + "/" + std::to_string(one.local_rank.value_or(0))) != unit) continue;
    Finding finding;
    finding.worst = one;
    return worst_text(finding);
  }
  return "all";
}

std::string trends_table(const Soak& soak, const SoakJudgement& judged, TerminalStyle style) {
  if (judged.trends.empty()) return "";
  std::size_t hours = 1;
  for (const SoakTrend& trend : judged.trends) hours = std::max(hours, trend.hours.size());
  const std::size_t each = (hours + max_columns - 1) / max_columns;
  const bool minutes = soak.plan.duration_s < 7200;
  std::vector<Table::Cell> head{{"percent against its own first " + std::string(minutes ? "quarter" : "hour")}, {"of"}};
  for (std::size_t h = 0; h < hours; h += each) {
    const double begin = static_cast<double>(h) * soak.hour_s() / (minutes ? 60 : 3600);
    head.push_back({(minutes ? "min " : "hour ") + number_text(std::round(begin * 10) / 10)});
  }
  head.push_back({"trend an hour"});
  Table table(std::move(head));
  // Sorted by GPU, so that the rows of a GPU are next to each other.
  std::vector<const SoakTrend*> trends;
  for (const SoakTrend& trend : judged.trends) trends.push_back(&trend);
  std::stable_sort(trends.begin(), trends.end(),
                   [](const SoakTrend* a, const SoakTrend* b) { return a->unit < b->unit; });
  for (const SoakTrend* trend : trends) {
    const auto tone = trend->low.empty() ? Table::Tone::plain : Table::Tone::bad;
    std::vector<Table::Cell> row{{name_of(judged, trend->unit)}, {trend->name}};
    for (std::size_t h = 0; h < hours; h += each) row.push_back({column(*trend, h, h + each), tone});
    row.push_back({slope_text(*trend), tone});
    table.add(std::move(row));
  }
  return table.text(style.table()) + "\n";
}

}  // namespace

std::string soak_text(const Soak& soak, const SoakJudgement& judged, TerminalStyle style) {
  return trends_table(soak, judged, style) + terminal_text(judged.verdict, style);
}

}  // namespace shakedown
