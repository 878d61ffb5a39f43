// Judges a run by a profile: each rule that applies, on each of its benchmarks. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "thresholds/findings/finding.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/rules/profile.hpp"

namespace shakedown {

/// A benchmark without a rule.
struct Unjudged {
  Key key;
  std::string metric;
  std::optional<double> value;  // nullopt: waived
  std::string detail;           // reason of the waiver
};

struct RuleFindings {
  std::vector<Finding> findings;
  std::vector<Unjudged> unjudged;
  std::size_t known_families = 0;                 // measured or named by the profile
  std::size_t families = 0, judged_families = 0;  // of these: to be judged; of those: judged by rules
};

/// Applies the rules. `profile` is null without one for this machine. Only benchmarks of `families` count. `before` has
/// earlier findings: if these or pre-flight fail and nothing else was measured, the rest is one finding. `untrue` has
/// impossible figures by key; each becomes part of the findings of its rules, or a finding. `among_peers` has families
/// without rules that were judged against the ranks of this run.
RuleFindings judge_rules(const Measured&, const Profile*, const FamilySet& families, const std::vector<Finding>& before,
                         std::vector<Finding> untrue, std::set<std::string> among_peers);

}  // namespace shakedown
