// Selects what the page shows of the rounds of a soak.
#include <algorithm>
#include <cmath>

#include "report/html/data.hpp"
#include "report/words.hpp"

namespace shakedown {
namespace {

using nlohmann::json;

constexpr std::size_t max_trends = 50, max_rounds = 50;

// Orders trends for the page: trends that are surely worse have a higher value than trends that may be noise.
double worst_hour(const SoakTrend& trend) {
  double worst = trend.low.empty() ? 0 : 1e9;
  for (const auto& hour : trend.hours) worst = std::max(worst, hour ? -*hour : 0);
  return worst;
}

std::string unit_name(const SoakJudgement& judged, const std::string& unit) {
  for (const Culprit& one : judged.units) {
    const int gpu = one.local_rank.value_or(0);
    if (one.uuid.value_or(one.host + "/" + std::to_string(gpu)) != unit) continue;
    return one.host + (one.local_rank ? " GPU " + std::to_string(gpu) : "");
  }
  return "all";
}

}  // namespace

json soak_data(const Soak& soak, const SoakJudgement& judged) {
  json rounds = json::array(), trends = json::array();
  std::size_t bad = 0;
  for (const SoakRound& round : soak.rounds) {
    if (round.state == State::pass || ++bad > max_rounds) continue;
    const std::string what =
        round.findings.empty() ? "" : joined_words(round.findings.front().key, round.findings.front().detail);
    rounds.push_back({round.number, soak.when(round), name(round.state), what});
  }
  std::vector<const SoakTrend*> worst;
  for (const SoakTrend& trend : judged.trends) worst.push_back(&trend);
  std::stable_sort(worst.begin(), worst.end(),
                   [](const SoakTrend* a, const SoakTrend* b) { return worst_hour(*a) > worst_hour(*b); });
  if (worst.size() > max_trends) worst.resize(max_trends);
  for (const SoakTrend* trend : worst) {
    json hours = json::array();
    for (const auto& hour : trend->hours) hours.push_back(hour ? json(std::round(1000 * *hour)) : json(nullptr));
    trends.push_back({{"name", joined_words(unit_name(judged, trend->unit), trend->name)},
                      {"limit", std::round(1000 * trend->limit)},
                      {"hours", hours},
                      {"low", trend->low}});
  }
  return {{"count", soak.rounds.size()},
          {"bad", bad},
          {"rounds", rounds},
          {"trends", trends},
          {"of", judged.trends.size()},
          {"hour_s", soak.hour_s()},
          {"minutes", soak.plan.duration_s < 7200},
          {"families", soak.plan.families}};
}

}  // namespace shakedown
