// The input and the verdict of a judgement, which all outputs need.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "thresholds/judge/verdict.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/rules/profile.hpp"
#include "thresholds/soak/soak.hpp"

namespace shakedown {

/// The results, with each file read only once, and the verdict.
struct Judged {
  std::unique_ptr<const Measured> measured;  // null for a stored verdict, because it has no rows
  std::vector<Profile> profiles;
  Verdict verdict;
  const Soak* soak = nullptr;  // the soak of this verdict, with the trend of each GPU; null for a single run
  const SoakJudgement* soak_judgement = nullptr;
  std::function<Judged()> last_round = {};  // for a soak: judges the round that the exports show
};

}  // namespace shakedown
