// The judgement: a pure function of measurements, references and options. A pass requires that everything was measured,
// verified and judged.
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

  std::vector<Profile> profiles;  // the matching one is used
  std::optional<Baseline> baseline = std::nullopt;
  RegressionOptions change = {.min_effect = default_tolerance, .allow_different = false, .families = {}};
  std::vector<ScalingSet> scaling = {};  // the same benchmarks with other numbers of nodes or ranks
};

/// Judges a run. Errors: InputError without results, for a file with an injected fault without permission, and for
/// other numbers of ranks that cannot be compared.
Verdict judge(const Measured&, const References&, const JudgeOptions&);

/// Returns a verdict with the facts known before the judgement: ranks, hosts, devices and ids. Needs a file.
Verdict before_judging(const std::vector<Results>&, const JudgeOptions&);

/// Returns how the findings of one key came about: its rules, whether and why they apply, and its values. Errors:
/// InputError if the key was neither measured nor has a rule.
std::string explain(const Measured&, const std::vector<Profile>&, const Verdict&, const std::string& key);

}  // namespace shakedown
