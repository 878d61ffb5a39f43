// Applies one rule to one benchmark, which gives the status, the worst value, and the ranks at fault.
#pragma once

#include <string>

#include "thresholds/findings/finding.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/rules/profile.hpp"

namespace shakedown {

/// Returns the finding of `rule` for the measurements of `key`; these are null if it was not measured. `untrue` is the
/// finding about impossible figures (thresholds/rules/validity.hpp), or null. `no_pair` means that no host has two
/// ranks, so that rows of pairs may be waived.
Finding finding_of(const Profile&, const Rule&, const Key&, const Benchmark*, const Finding* untrue, const Context&,
                   bool no_pair);

/// False if the rule's condition is met on no rank.
bool judges_somebody(const Rule&, const Benchmark*);

}  // namespace shakedown
