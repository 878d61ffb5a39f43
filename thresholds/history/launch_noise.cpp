// Estimates how much two sets of launches differ by chance. Each source of noise adds the variance that the two sets do
// not have in common.
#include "thresholds/history/launch_noise.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "base/utc.hpp"
#include "thresholds/catalogue/metrics.hpp"

namespace shakedown {
namespace {

/// The known noise of a kind of figure has the weight of this number of launches (Smyth, 2004), unless the launches
/// themselves have `own_degrees` of freedom.
constexpr double prior_degrees = 10, own_degrees = 8;

/// Standard deviation of blocks, relative to that of launches. This ratio is high because successive launches are
/// similar (autocorrelation 0.7 in the simulation of tests/thresholds/drift_test.cpp).
constexpr double block_share = 0.75;

/// A larger deviation of a launch from its median, in standard deviations, counts as a deviation of this size.
constexpr double max_deviations = 4;

/// Adds the squared deviations of these launches from their median, and their degrees of freedom.
void add_squares(const Series& series, double scale, double known, double& squares, double& degrees) {
  const auto units = series.units(true);
  const double centre = median(units), limit = max_deviations * std::max(known * scale, robust_sigma(units));
  for (const double value : units) {
    const double deviation = std::min(std::abs(value - centre), limit) / scale;
    squares += deviation * deviation;
  }
  degrees += static_cast<double>(units.size()) - 1;
}

}  // namespace

LaunchPlan::LaunchPlan(const Baseline& before, const Baseline& now) {
  const Baseline* const sides[] = {&before, &now};
  for (int side = 0; side < 2; ++side) {
    for (const auto& [name, launch] : sides[side]->launches) {
      hosts_[side].insert(launch.hosts.begin(), launch.hosts.end());
      gpus_[side].insert(launch.gpus.begin(), launch.gpus.end());
    }
  }
  place_launches(before, now);
}

void LaunchPlan::place_launches(const Baseline& before, const Baseline& now) {
  struct Start {
    std::string machine;
    double at;
    bool is_new;
    std::string name;
  };
  std::vector<Start> starts;
  for (const Baseline* side : {&before, &now}) {
    for (const auto& [name, launch] : side->launches) {
      starts.push_back(
          {joined(launch.hosts) + joined(launch.gpus), seconds_of(launch.started).value_or(0), side == &now, name});
    }
  }
  std::sort(starts.begin(), starts.end(),
            [](const Start& a, const Start& b) { return std::tie(a.machine, a.at) < std::tie(b.machine, b.at); });
  Place place;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (i > 0) {
      const Start& last = starts[i - 1];
      const bool other_machine = starts[i].machine != last.machine;
      const bool other_session = other_machine || starts[i].at - last.at > 3600 * hours_of_session;
      place.machine += other_machine ? 1 : 0;
      place.session += other_session ? 1 : 0;
      place.block += other_session || starts[i].is_new != last.is_new ? 1 : 0;
    }
    (starts[i].is_new ? now_ : before_)[starts[i].name] = place;
  }
  join_turns();
}

void LaunchPlan::join_turns() {
  std::map<std::size_t, std::set<std::size_t>> blocks[2];  // by session
  for (Places* const side : {&before_, &now_}) {
    for (const auto& [name, place] : *side) blocks[side == &now_][place.session].insert(place.block);
  }
  for (Places* const side : {&before_, &now_}) {
    for (auto& [name, place] : *side) {
      const auto old_blocks = blocks[0].find(place.session), new_blocks = blocks[1].find(place.session);
      if (old_blocks == blocks[0].end() || new_blocks == blocks[1].end()) continue;
      if (old_blocks->second.size() < 2 || new_blocks->second.size() < 2) continue;
      place.block = std::min(*old_blocks->second.begin(), *new_blocks->second.begin());
    }
  }
}

Noise LaunchPlan::noise(const Key& key, const std::string& metric, const Series& before, const Series& now) const {
  const Spread known = spread_of(key, metric);
  const double centre = std::abs(median(before.units(true))), scale = centre > 0 ? centre : 1;
  double squares = 0, degrees = 0;
  add_squares(before, scale, known.launch, squares, degrees);
  add_squares(now, scale, known.launch, squares, degrees);
  if (degrees < own_degrees) {
    squares += prior_degrees * known.launch * known.launch;
    degrees += prior_degrees;
  }
  // By block, session and machine: the fraction of each side's launches in it; negative for the new side.
  std::map<std::size_t, double> blocks, sessions, machines;
  const auto add = [&](const Series& series, const Places& places, double sign) {
    const double part = sign / static_cast<double>(series.launches.size());
    for (const auto& [name, values] : series.launches) {
      const Place& place = places.at(name);
      blocks[place.block] += part;
      sessions[place.session] += part;
      machines[place.machine] += part;
    }
  };
  add(before, before_, 1);
  add(now, now_, -1);
  const auto variance = [](const std::map<std::size_t, double>& parts) {
    double sum = 0;
    for (const auto& [place, part] : parts) sum += part * part;
    return sum;
  };
  const double own = squares / degrees;
  const double launches =
      1 / static_cast<double>(before.launches.size()) + 1 / static_cast<double>(now.launches.size());
  return {std::sqrt(own), std::sqrt(own * (launches + block_share * block_share * variance(blocks))),
          std::hypot(known.day * std::sqrt(variance(sessions)), known.machine * std::sqrt(variance(machines))),
          degrees};
}

std::optional<std::string> LaunchPlan::note() const {
  std::set<std::size_t> old_sessions, new_sessions;
  for (const auto& [name, place] : before_) old_sessions.insert(place.session);
  for (const auto& [name, place] : now_) new_sessions.insert(place.session);
  if (old_sessions == new_sessions) return std::nullopt;
  if (hosts_[0] != hosts_[1]) {
    return "other hosts than in the baseline, " + joined(hosts_[1]) + " instead of " + joined(hosts_[0]) +
           ": a difference may come from the machine";
  }
  if (!gpus_[0].empty() && !gpus_[1].empty() && gpus_[0] != gpus_[1]) {
    return "other GPUs (UUIDs) than in the baseline: a difference may come from the machine";
  }
  return "old and new launches were measured in different sessions: a difference may come from the day";
}

}  // namespace shakedown
