// The learning rate of each step of a fine-tuning.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/finetune/settings.hpp"

namespace shakedown::finetune {

/// Returns the rate of a step, which counts from 0, in a run of `steps` steps. It rises in a line from 0 in the
/// warm-up. The rates are those of get_cosine_schedule_with_warmup and its relatives in transformers: the first step of
/// a warm-up has the rate 0.
inline double learning_rate(const FinetuneSettings& s, std::int64_t step, std::int64_t steps) {
  if (step < s.warmup_steps) return s.lr * static_cast<double>(step) / static_cast<double>(s.warmup_steps);
  const auto falling = static_cast<double>(std::max<std::int64_t>(1, steps - s.warmup_steps));
  const double done = std::min(1.0, static_cast<double>(step - s.warmup_steps) / falling);
  switch (s.schedule) {
    case Schedule::cosine: return s.lr * 0.5 * (1 + std::cos(std::numbers::pi * done));
    case Schedule::linear: return s.lr * (1 - done);
    case Schedule::constant: break;
  }
  return s.lr;
}

}  // namespace shakedown::finetune
