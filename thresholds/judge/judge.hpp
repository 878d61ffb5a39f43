// The judgement: a pure function of measurements, references and options. A run passes only if everything was measured,
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
#include "thresholds/history/own_record.hpp"
#include "thresholds/history/regression.hpp"
#include "thresholds/judge/verdict.hpp"
#include "thresholds/results/measured.hpp"

namespace shakedown {

/// The references of a run.
struct References {
  References(std::vector<Profile> candidates = {}) : profiles(std::move(candidates)) {}

  std::vector<Profile> profiles;  // the one that matches the machine is used
  std::optional<Baseline> baseline = std::nullopt;
  std::optional<OwnRecord> own = std::nullopt;  // for a gate: earlier accepted runs of the same GPUs
  RegressionOptions change = {.min_effect = default_tolerance, .allow_different = false, .families = {}};
  std::vector<ScalingSet> scaling = {};  // results of the same benchmarks with other numbers of nodes or ranks
};

/// Judges a run. Errors: InputError if there are no results, if a file has an injected fault that is not permitted, and
/// if results of other numbers of ranks cannot be compared.
Verdict judge(const Measured&, const References&, const JudgeOptions&);

/// Returns a verdict that has the facts known before the judgement: ranks, hosts, devices and ids. Needs at least one
/// file.
Verdict before_judging(const std::vector<Results>&, const JudgeOptions&);

/// Explains the findings of one key: its rules, whether and why they apply, and its values. Errors: InputError if the
/// key was not measured and has no rule.
std::string explain(const Measured&, const std::vector<Profile>&, const Verdict&, const std::string& key);

}  // namespace shakedown
