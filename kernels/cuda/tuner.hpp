// The search of kernels/tuner.hpp on a GPU.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "kernels/cuda/gpu.hpp"
#include "kernels/tuner.hpp"

namespace shakedown::cuda {

/// Returns the index of the fastest of `count` candidates; nullopt if none runs. enqueue(i) queues candidate i once and
/// returns true if it runs at all.
std::optional<std::size_t> pick_fastest(const Gpu&, std::size_t count, const std::function<bool(std::size_t)>& enqueue,
                                        const Tuning&);

/// Returns the seconds of each of `count` candidates, measured in one turn after another on this GPU; HUGE_VAL for a
/// candidate that does not run.
std::vector<double> one_turn(const Gpu&, std::size_t count, const std::function<bool(std::size_t)>& enqueue,
                             const std::optional<Bursts>& bursts = std::nullopt);

}  // namespace shakedown::cuda
