#include "thresholds/history/tuning.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/statistics.hpp"
#include "base/text.hpp"

namespace shakedown {
namespace {

double level_of(std::size_t settings, std::size_t rows) {
  return false_recommendation / static_cast<double>(std::max<std::size_t>(settings * rows, 1));
}

/// True if the setting loses more than the effect in this row, by the 95 % bound of this row alone: to prevent a
/// recommendation, a loss needs less proof than a gain.
bool loses(const Change& change, double min_effect) {
  return change.percent.value_or(0) <= -100 * min_effect && change.high.value_or(-1) < 0;
}

Advice advice_of(const JudgedSetting& setting, double min_effect) {
  if (!setting.measured.missing.empty()) return Advice::unavailable;
  const auto count = [&](Trend trend) {
    return std::ranges::count_if(setting.changes, [&](const Change& change) { return change.trend == trend; });
  };
  const bool is_mixed =
      std::ranges::any_of(setting.changes, [&](const Change& change) { return loses(change, min_effect); });
  const auto better = count(Trend::better), worse = count(Trend::worse), same = count(Trend::same);
  if (better > 0) return is_mixed ? Advice::mixed : Advice::recommended;
  if (worse > 0) return Advice::slower;
  return !setting.changes.empty() && same == std::ssize(setting.changes) ? Advice::same : Advice::undecided;
}

JudgedSetting judged_setting(const MeasuredSetting& defaults, MeasuredSetting setting, double level,
                             double min_effect) {
  JudgedSetting judged{std::move(setting), {}, Advice::undecided};
  for (const auto& [row, before] : defaults.values) {
    const auto after = judged.measured.values.find(row);
    if (before.empty() || after == judged.measured.values.end() || after->second.empty()) continue;
    judged.changes.push_back(
        judge_change(row.key(), std::string(row.metric()), before, after->second, min_effect, level));
  }
  judged.advice = advice_of(judged, min_effect);
  return judged;
}

}  // namespace

Key TunedRow::key() const {
  Key key(row);
  if (!is_step()) key.set("bytes", bytes);
  return key;
}

std::string MeasuredSetting::text() const { return joined(variables, " "); }

double JudgedSetting::mean_percent() const {
  double sum = 0;
  for (const Change& change : changes) sum += change.percent.value_or(0);
  return changes.empty() ? 0 : sum / static_cast<double>(changes.size());
}

bool JudgedSetting::is_of_step() const {
  return !measured.values.empty() &&
         std::ranges::all_of(measured.values, [](const auto& value) { return value.first.is_step(); });
}

const Change* JudgedSetting::worst() const {
  const auto least = std::ranges::min_element(
      changes, {}, [](const Change& change) { return change.trend == Trend::worse ? *change.percent : 0; });
  return least != changes.end() && least->trend == Trend::worse ? &*least : nullptr;
}

const JudgedSetting* Tuning::best_of(bool step) const {
  const JudgedSetting* best = nullptr;
  for (const JudgedSetting& setting : settings) {
    const bool better = best == nullptr || setting.mean_percent() > best->mean_percent();
    if (setting.advice == Advice::recommended && setting.is_of_step() == step && better) best = &setting;
  }
  return best;
}

int Tuning::exit_code() const {
  constexpr int found = 1, inconclusive = 3;
  const auto any = [&](auto is) { return std::ranges::any_of(settings, is); };
  const auto undecided = [](const JudgedSetting& setting) { return setting.advice == Advice::undecided; };
  if (any([](const JudgedSetting& setting) { return setting.measured.is_in_use && setting.worst() != nullptr; })) {
    return found;
  }
  if (any([&](const JudgedSetting& setting) { return setting.measured.is_in_use && undecided(setting); })) {
    return inconclusive;
  }
  const bool decided =
      any([&](const JudgedSetting& setting) { return setting.advice != Advice::unavailable && !undecided(setting); });
  return decided ? 0 : inconclusive;
}

int rounds_needed(std::size_t settings, std::size_t rows) {
  constexpr double overlap = 4;  // p of a sample in which a few values overlap, over the smallest p
  std::size_t rounds = 2;
  while (overlap * smallest_p(2 * rounds, rounds) > level_of(settings, rows)) ++rounds;
  return static_cast<int>(rounds);
}

std::vector<std::size_t> launches_of_round(std::size_t settings, int round) {
  std::vector<std::size_t> launches;
  for (std::size_t i = 1; i <= settings; ++i) launches.push_back(i);
  if (round % 2 == 1) std::ranges::reverse(launches);
  launches.insert(launches.begin(), 0);
  launches.push_back(0);
  return launches;
}

Tuning judge_tuning(MeasuredSetting defaults, std::vector<MeasuredSetting> settings, int rounds, double min_effect) {
  const auto rows = defaults.values.size();
  const double level = level_of(settings.size(), rows);
  Tuning tuning{min_effect, rounds, rounds_needed(settings.size(), rows), std::move(defaults), {}};
  for (auto& setting : settings) {
    tuning.settings.push_back(judged_setting(tuning.defaults, std::move(setting), level, min_effect));
  }
  std::ranges::stable_sort(tuning.settings, std::ranges::greater{},
                           [](const JudgedSetting& setting) { return setting.measured.is_in_use; });
  return tuning;
}

}  // namespace shakedown
