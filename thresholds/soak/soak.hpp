// Judges a soak: rounds on one machine over hours or days. Each round is judged like any run. This file judges what
// only the series shows: repeated faults, growth of counters since the start, changed bits, and the change of each GPU
// since its own first hour. Pure functions. docs/statistics.md has the rules.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "thresholds/judge/verdict.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/soak/soak_rounds.hpp"
#include "thresholds/soak/trends.hpp"

namespace shakedown {

struct SoakJudgement {
  Verdict verdict;
  std::vector<SoakTrend> trends;
  std::vector<Culprit> units;  // in the order of their first round
};

/// Returns the judgement. Errors: InputError if there is no round.
SoakJudgement judge_soak(const Soak&);

}  // namespace shakedown
