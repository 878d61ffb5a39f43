// The judgement: a pure function of measurements, references and options. Whatever was not measured,
// verified and judged is not a pass.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "thresholds/findings/judge_options.hpp"
#include "thresholds/history/baseline.hpp"
#include "thresholds/history/regression.hpp"
#include "thresholds/judge/verdict.hpp"
#include "thresholds/results/measured.hpp"

namespace shakedown {

/// The references of a run.
struct References {
  References(std::vector<Profile> candidates = {}) : profiles(std::move(candidates)) {}

  std::vector<Profile> profiles;  // the one that fits the machine is taken
  std::optional<Baseline> baseline = std::nullopt;
  RegressionOptions change = {.min_effect = default_tolerance, .allow_different = false, .families = {}};
  std::vector<ScalingSet> scaling = {};  // the same with other numbers of nodes or ranks
};

/// The only entry. Errors: InputError for no results at all, for a file with an injected fault that options do not
/// allow, or for other numbers of ranks that cannot be compared.
Verdict judge(const Measured&, const References&, const JudgeOptions&);

/// The verdict with what is known of a run before it is judged: its ranks, hosts, devices and ids. Needs a file.
Verdict before_judging(const std::vector<Results>&, const JudgeOptions&);

/// How the findings of one key came about: the rules that name it, whether they apply and why not, what was measured.
/// Errors: InputError if the key was neither measured nor named by a rule.
std::string explain(const Measured&, const std::vector<Profile>&, const Verdict&, const std::string& key);

}  // namespace shakedown
