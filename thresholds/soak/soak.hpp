// Judges a soak, which is a series of rounds on one machine over hours or days. Each round has already been judged like
// any run. This file judges what only the whole series of rounds shows: repeated faults, counters that grow, bits that
// change, and how each GPU changes compared with its own first hour. The functions are pure. docs/statistics.md has the
// rules.
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
  std::vector<Culprit> units;  // in the order of the first round in which they occur
};

/// Judges a soak. Errors: InputError if it has no round.
SoakJudgement judge_soak(const Soak&);

}  // namespace shakedown
