// Judges a run by a profile: applies each rule that is valid for the run to each of its benchmarks. The functions are
// pure.
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
  std::optional<double> value;  // nullopt if the benchmark was waived
  std::string detail;           // reason of the waiver
};

struct RuleFindings {
  std::vector<Finding> findings;
  std::vector<Unjudged> unjudged;
  std::size_t known_families = 0;                 // number of families that were measured or that the profile names
  std::size_t families = 0, judged_families = 0;  // number of these that must be judged, and of those that rules judged
};

/// Applies the rules. `profile` is null if none describes this machine. Only benchmarks of `families` are used.
/// `before` has earlier findings: if these or pre-flight fail and nothing else was measured, all other families get one
/// finding. `untrue` has impossible figures by key; each becomes part of the findings of its rules, or a finding of its
/// own. `among_peers` has families without rules whose ranks were compared with each other.
RuleFindings judge_rules(const Measured&, const Profile*, const FamilySet& families, const std::vector<Finding>& before,
                         std::vector<Finding> untrue, std::set<std::string> among_peers);

}  // namespace shakedown
