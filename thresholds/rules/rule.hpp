// One rule on one benchmark: pass, fail, missing, waived, invalid or inconclusive, the worst value, and the ranks to
// blame.
#pragma once

#include <string>

#include "thresholds/findings/finding.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/rules/profile.hpp"

namespace shakedown {

/// The finding of `rule` on what was measured under `key`; null: nothing was. `untrue`: what is wrong with its figures
/// themselves (thresholds/rules/validity.hpp); null: nothing. `no_pair`: no host has two ranks, so that what needs a
/// pair may be waived.
Finding finding_of(const Profile&, const Rule&, const Key&, const Benchmark*, const Finding* untrue, const Context&,
                   bool no_pair);

/// False if the rule's condition holds on no rank, so that it judges none.
bool judges_somebody(const Rule&, const Benchmark*);

}  // namespace shakedown
