// The input and the verdict of a judgement, as all outputs need them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "thresholds/judge/verdict.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/rules/profile.hpp"
#include "thresholds/soak/soak.hpp"

namespace shakedown {

/// The results that were read, each file once, and the verdict.
struct Judged {
  std::unique_ptr<const Measured> measured;  // null for a stored verdict, which has no rows
  std::vector<Profile> profiles;
  Verdict verdict;
  const Soak* soak = nullptr;  // the soak of this verdict, with the trend of each GPU; null for a single run
  const SoakJudgement* soak_judgement = nullptr;
  std::function<Judged()> last_round = {};  // for a soak: judges the round whose results the exports contain
};

}  // namespace shakedown
