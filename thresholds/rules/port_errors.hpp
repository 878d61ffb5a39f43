// Errors that the rails of hosts counted while this was measured. Pure.
#pragma once

#include <vector>

#include "thresholds/findings/finding.hpp"

namespace shakedown {

/// Returns for each host a finding machine/errors/host:NAME that names the rails whose errors exceed a limit, and one
/// about those that exceed the limit of a warning only. `families`: only in their benchmarks.
std::vector<Finding> judge_port_errors(const std::vector<Results>&, const FamilySet& families);

}  // namespace shakedown
