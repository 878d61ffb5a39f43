// What a judgement was made of, and its verdict: all that an output needs.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "thresholds/judge/verdict.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/rules/profile.hpp"
#include "thresholds/soak/soak.hpp"

namespace shakedown {

/// What was read, each file once, and what it comes to.
struct Judged {
  std::unique_ptr<const Measured> measured;  // null: the verdict was stored, and its figures are elsewhere
  std::vector<Profile> profiles;
  Verdict verdict;
  const Soak* soak = nullptr;  // of which it is the verdict, and how each GPU went in it; null: of one run
  const SoakJudgement* soak_judgement = nullptr;
  std::function<Judged()> last_round = {};  // of a soak: judges the round whose figures exports hold
};

}  // namespace shakedown
