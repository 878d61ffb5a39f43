#include "report/family_figures.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "report/words.hpp"
#include "thresholds/catalogue/key_names.hpp"

namespace shakedown {
namespace {

std::vector<FamilyFigure> rates_of(const Verdict& verdict) {
  std::vector<FamilyFigure> rates;
  for (const Finding& finding : verdict.findings) {
    const auto compared = finding.compared();
    const bool is_rate = compared && (compared->limit.kind == LimitKind::min || compared->limit.kind == LimitKind::max);
    if (!is_rate || !finding.counts() || finding.key.family() == "preflight") continue;
    rates.push_back({&finding, -compared->limit.shortfall(compared->value)});
  }
  return rates;
}

// Figures that the profile marks are first; among the others, a smaller margin is first.
bool is_shown_before(const FamilyFigure& a, const FamilyFigure& b) {
  return std::pair(!a.finding->seen, a.margin) < std::pair(!b.finding->seen, b.margin);
}

}  // namespace

std::vector<FamilyFigure> family_figures(const Verdict& verdict) {
  std::vector<FamilyFigure> figures;
  for (const FamilyFigure& rate : rates_of(verdict)) {
    const auto found = std::find_if(figures.begin(), figures.end(), [&](const FamilyFigure& figure) {
      return figure.finding->key.family() == rate.finding->key.family();
    });
    if (found == figures.end()) {
      figures.push_back(rate);
    } else if (is_shown_before(rate, *found)) {
      *found = rate;
    }
  }
  return figures;
}

std::string closest_text(const Verdict& verdict) {
  const auto rates = rates_of(verdict);
  const auto closest =
      std::min_element(rates.begin(), rates.end(), [](const auto& a, const auto& b) { return a.margin < b.margin; });
  if (closest == rates.end()) return "";
  const Finding& finding = *closest->finding;
  for (const FamilyFigure& figure : family_figures(verdict)) {
    if (figure.finding == &finding) return "";
  }
  return "closest to its limit: " + readable(finding.key) + ": " + value_text(finding) + ", " + limit_text(finding) +
         ", " + percent_text(closest->margin);
}

std::string usual_text(const Finding& finding) {
  if (!finding.seen) return "";
  const auto& [low, high, gpus] = *finding.seen;
  // Compares the printed values, so that rounding cannot put a stored run outside its own range.
  const std::string value = number_text(finding.value.value_or(low));
  const bool is_below = finding.value && *finding.value < low && value != number_text(low);
  const bool is_above = finding.value && *finding.value > high && value != number_text(high);
  return (is_below   ? "below: "
          : is_above ? "above: "
                     : "") +
         number_text(low) + " to " + number_text(high) + " on " + plural(gpus, "GPU");
}

}  // namespace shakedown
