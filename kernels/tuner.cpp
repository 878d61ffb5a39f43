// Times candidates round-robin: each turn runs all of them once.
#include "kernels/tuner.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/statistics.hpp"

namespace shakedown {

namespace {

constexpr int max_turns = 7;
constexpr double better_time_ratio = 0.997;  // as a fraction of the earlier candidate's time
constexpr double dropped_time_ratio = 1.10;  // as a multiple of the best time so far; slower candidates are dropped
constexpr double turn_seconds = 1e-3;        // long enough that the launch is negligible

// Limits of turns in bursts.
constexpr int burst_turns = 2;
constexpr double long_operation_seconds = 5e-3;  // seconds; a single operation of this length is a load, so a turn
                                                 // without rests would not be representative

// The number of candidates of the sustained race, and how often each runs.
constexpr std::size_t max_finalists = 4;
constexpr double finalist = 1.05;                 // as a multiple of the best time in turns
constexpr double short_operation_seconds = 2e-4;  // seconds
constexpr int heats = 2;

// Limits for operations that take long, such as f64 on a GPU that has 1/64 of its f32 rate there. The longest product
// of a run takes 0.18 s on H100 and H200: 12 candidates of it need 2.2 s, and three turns of them 10 s.
constexpr double max_warm_up_seconds = 2.5, max_seconds = 12;
constexpr double repeats_exactly = 0.25;  // seconds; one turn tells operations of this length apart

struct Candidate {
  std::size_t index;
  std::vector<double> seconds;

  double median() const { return shakedown::median(seconds); }
};

class Turns {
 public:
  Turns(Trials& trials, double budget_seconds) : trials_(trials), begin_(trials.now()), budget_(budget_seconds) {}

  /// Runs each candidate once, which loads its code, and returns those that run. Stops when half of the budget is spent
  /// and enough candidates run; the caller therefore lists the most likely candidates first. Never begins a candidate
  /// that would exceed the limit of the warm-up if it took as long as the one before.
  std::vector<Candidate> warm_up(std::size_t count, std::size_t min_candidates) {
    std::vector<Candidate> running;
    for (std::size_t i = 0; i < count; ++i) {
      const double before = spent();
      if (trials_.runs(i)) running.push_back({i, {}});
      if (running.size() >= min_candidates && spent() > budget_ / 2) break;
      if (!running.empty() && 2 * spent() - before > max_warm_up_seconds) break;
    }
    return running;
  }

  double spent() { return trials_.now() - begin_; }
  bool time_left() { return spent() < budget_; }

  double time(std::size_t index, int repeats) { return trials_.seconds(index, repeats); }

  /// Times a candidate in bursts. The first operation of a burst is not timed, because the clock has not settled yet.
  double time_in(const Bursts& bursts, std::size_t index, int repeats, double once) {
    const double expected = repeats * once;
    if (load_ + expected > bursts.load) {
      trials_.rest(bursts.rest_after(load_));
      load_ = 0;
      if (expected < long_operation_seconds) load_ += time(index, repeats) * repeats;
    }
    const double seconds = time(index, repeats);
    load_ += seconds * repeats;
    return seconds;
  }

 private:
  Trials& trials_;
  double begin_, budget_;
  double load_ = std::numeric_limits<double>::max();  // seconds since the last rest
};

/// Runs the finalists in long turns. The first part of each turn still runs at the previous candidate's clock
/// and is not timed.
void race(Turns& turns, std::vector<Candidate>& candidates, double seconds) {
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.median() < b.median(); });
  const double best = candidates.front().median();
  const auto slower = std::find_if(candidates.begin(), candidates.end(),
                                   [best](const Candidate& c) { return c.median() > finalist * best; });
  candidates.erase(slower, candidates.end());
  candidates.resize(std::min(candidates.size(), max_finalists));
  for (auto& candidate : candidates) candidate.seconds.clear();
  const int repeats = std::max(1, static_cast<int>(seconds / 2 / heats / best));
  for (int heat = 0; heat < heats && candidates.size() > 1; ++heat) {
    for (auto& candidate : candidates) {
      turns.time(candidate.index, repeats);
      candidate.seconds.push_back(turns.time(candidate.index, repeats));
    }
  }
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.index < b.index; });
}

double best_of(const std::vector<Candidate>& candidates) {
  double best = std::numeric_limits<double>::max();
  for (const auto& candidate : candidates) best = std::min(best, candidate.median());
  return best;
}

/// True if another turn of `candidates` fits into the limit of the whole search, in addition to what was spent.
bool another_turn_fits(Turns& turns, std::size_t candidates, double once, double rest) {
  return turns.spent() + static_cast<double>(candidates) * (once + rest) <= max_seconds;
}

}  // namespace

TuningShare tuning_share(Group& group, const std::string& device) {
  return group.all_same(device) ? TuningShare{group.rank(), group.size()} : TuningShare{};
}

std::vector<double> one_turn(Trials& trials, std::size_t count, const std::optional<Bursts>& bursts) {
  Turns turns(trials, 0);
  std::vector<double> seconds(count, HUGE_VAL), once(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (trials.runs(i)) once[i] = std::max(turns.time(i, 1), 1e-7);
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (once[i] == 0) continue;
    if (once[i] >= repeats_exactly) {
      seconds[i] = once[i];
      continue;
    }
    const int repeats = static_cast<int>(std::clamp(turn_seconds / once[i], 1.0, 100.0));
    seconds[i] = bursts ? turns.time_in(*bursts, i, repeats, once[i]) : turns.time(i, repeats);
  }
  return seconds;
}

std::optional<std::size_t> pick_fastest(Trials& trials, std::size_t count, const Tuning& tuning) {
  Turns turns(trials, tuning.seconds);
  auto candidates = turns.warm_up(count, tuning.min_candidates);
  if (candidates.empty()) return std::nullopt;
  if (candidates.size() == 1) return candidates.front().index;

  const double once = std::max(turns.time(candidates.front().index, 1), 1e-7);
  const int repeats = static_cast<int>(std::clamp(turn_seconds / once, 1.0, 100.0));
  // Only complete turns are used; otherwise the candidates would not have run under the same conditions.
  const auto take_turn = [&](const auto& seconds_of) {
    if (candidates.size() == 1) return;
    for (auto& candidate : candidates) candidate.seconds.push_back(seconds_of(candidate.index));
    const double limit = best_of(candidates) * dropped_time_ratio;
    std::erase_if(candidates, [limit](const Candidate& candidate) { return candidate.median() > limit; });
  };
  const auto plainly = [&](std::size_t index) { return turns.time(index, repeats); };
  const auto in_bursts = [&](std::size_t index) { return turns.time_in(*tuning.bursts, index, repeats, once); };
  if (!tuning.bursts) {
    for (int turn = 0; turn < max_turns && (turn == 0 || turns.time_left()); ++turn) take_turn(plainly);
  } else {
    if (once < long_operation_seconds) take_turn(plainly);  // drops slow candidates first
    for (auto& candidate : candidates) candidate.seconds.clear();
    const int in_all = once < long_operation_seconds ? burst_turns : once < repeats_exactly ? tuning.slow_turns : 1;
    for (int turn = 0; turn < in_all; ++turn) {
      if (turn > 0 && !another_turn_fits(turns, candidates.size(), once, tuning.bursts->rest)) break;
      take_turn(in_bursts);
    }
  }
  if (candidates.size() == 1) return candidates.front().index;
  const double best = best_of(candidates);  // an operation that takes long is a lasting load by itself
  if (tuning.sustained > 0 && best > short_operation_seconds && best < repeats_exactly) {
    race(turns, candidates, tuning.sustained);
  }

  const auto* chosen = &candidates.front();
  for (const auto& candidate : candidates) {
    if (candidates.size() > 1 && candidate.median() < better_time_ratio * chosen->median()) chosen = &candidate;
  }
  return chosen->index;
}

}  // namespace shakedown
