// The judgement of a soak: rounds of one machine over hours or days. A single round is judged like any run; what only
// the series shows is judged here: what repeats, what the counters have counted since the start, whether the bits stay,
// and how far each GPU has come from its own first hour. Pure. docs/statistics.md has the rules.
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
  std::vector<Culprit> units;  // in the order of first sight
};

/// Errors: InputError where there is no round.
SoakJudgement judge_soak(const Soak&);

}  // namespace shakedown
