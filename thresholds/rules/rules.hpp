// The judgement by a profile: each of its rules that applies, on each benchmark that it stands for. Pure.
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

/// A benchmark that no rule judged.
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
  std::size_t families = 0, judged_families = 0;  // of these, in the set that is judged; of those, judged by rules
};

/// `profile`: null if none is for this machine. `families`: only their benchmarks. `before`: what was found already;
/// where that or pre-flight fails and nothing else was measured, the rest is one finding. `untrue`: figures that cannot
/// be true, by key; each is part of the findings of the rules about that key, or one of its own. `among_peers`: the
/// families that were judged without a rule, against the ranks of this run.
RuleFindings judge_rules(const Measured&, const Profile*, const FamilySet& families, const std::vector<Finding>& before,
                         std::vector<Finding> untrue, std::set<std::string> among_peers);

}  // namespace shakedown
