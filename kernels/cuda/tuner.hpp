// Picks the fastest of several ways to do the same thing, on this GPU, within a time budget.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "kernels/cuda/gpu.hpp"
#include "kernels/device.hpp"

namespace shakedown::cuda {

/// How candidates are timed. A GPU at its power limit lowers its clock for what burns more, but only over tens of
/// milliseconds: in turns all candidates run at the clock of their mixture. Which of them is fastest depends on the
/// clock, so that they are chosen as they will run. With `sustained` the closest run again, each alone for so many
/// seconds, and their rates then decide; not for what is over so soon that power does not limit it. With `bursts` the
/// turns that decide are made of such.
struct Tuning {
  double seconds;  // the turns, about
  double sustained = 0;
  std::optional<Bursts> bursts = std::nullopt;
  std::size_t least_candidates = 4;  // that are tried, however long they take
  int slow_turns = 1;                // in bursts, of what takes milliseconds
};

/// Index of the fastest of `count` candidates, or nothing if none runs. enqueue(i) queues candidate i once and says
/// whether it runs at all. The candidates are measured in turns, so that a GPU that warms up or throttles meets all of
/// them alike, and judged by the median of their turns. An earlier candidate wins over a later one that is not clearly
/// faster, so that the choice does not change from run to run.
std::optional<std::size_t> pick_fastest(const Gpu&, std::size_t count, const std::function<bool(std::size_t)>& enqueue,
                                        const Tuning&);

/// Seconds of each of `count` candidates in one turn after another, on this GPU; HUGE_VAL for one that does not run.
std::vector<double> one_turn(const Gpu&, std::size_t count, const std::function<bool(std::size_t)>& enqueue,
                             const std::optional<Bursts>& bursts = std::nullopt);

}  // namespace shakedown::cuda
