#include "thresholds/findings/order.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>

namespace shakedown {
namespace {

// Returns the percentage as reports show it, with one digit.
double shown(double percent) { return std::round(10 * percent); }

// Facts and errors come before figures.
double order_of(const Finding& finding) {
  const auto percent = percent_off(finding);
  return percent ? shown(*percent) : std::numeric_limits<double>::infinity();
}

// A rank comes before a host, and both before findings about the whole run.
using Place = std::tuple<int, std::string, std::string>;

Place place_of(const Culprit* worst, const Part& part) {
  constexpr int after_all_ranks = std::numeric_limits<int>::max();
  if (worst == nullptr) return {after_all_ranks, part.host, part.id};
  return {worst->rank.value_or(after_all_ranks), worst->host, part.id};
}

long kind_of(const Diagnosis& d) {
  constexpr std::array others{Cause::configuration, Cause::busy_core, Cause::late_rank, Cause::slow_silicon};
  const auto other = std::find(others.begin(), others.end(), d.causes.front());
  if (other != others.end()) return 2 + (other - others.begin());
  return d.causes.front() == Cause::wrong_data ? 0L : 1L;
}

}  // namespace

std::optional<double> percent_off(const Finding& finding) {
  const auto compared = finding.compared();
  if (!compared) return std::nullopt;
  switch (compared->limit.kind) {
    case LimitKind::equals: return std::nullopt;
    case LimitKind::spread_max:
    case LimitKind::cv_max: return 100 * (compared->value - compared->limit.value);
    default: break;
  }
  const double percent = 100 * compared->limit.shortfall(compared->value);
  return std::isfinite(percent) ? std::optional(percent) : std::nullopt;
}

void sort_worst_first(std::vector<Diagnosis>& culprits) {
  const auto key = [](const Diagnosis& d) {
    return std::tuple(!d.fails, kind_of(d), -shown(d.percent.value_or(0)),
                      place_of(d.places.empty() ? nullptr : &d.places.front(), d.part));
  };
  std::ranges::stable_sort(culprits, {}, key);
}

void sort_worst_first(std::vector<const Finding*>& findings) {
  const auto key = [](const Finding* finding) {
    const double order = order_of(*finding);
    const bool is_figure = std::isfinite(order);
    return std::tuple(!finding->counts(), -order,
                      is_figure ? place_of(finding->worst ? &*finding->worst : nullptr, finding->part) : Place());
  };
  std::ranges::stable_sort(findings, {}, key);
}

}  // namespace shakedown
