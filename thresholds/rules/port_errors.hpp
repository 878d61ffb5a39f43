// Errors that the rails of hosts counted during the measurement. The functions are pure.
#pragma once

#include <vector>

#include "thresholds/findings/finding.hpp"

namespace shakedown {

/// Returns up to two findings machine/errors/host:NAME for each host: one names the rails whose errors exceed a limit
/// that fails, the other those that exceed only the limit of a warning. Only benchmarks of `families` are used.
std::vector<Finding> judge_port_errors(const std::vector<Results>&, const FamilySet& families);

}  // namespace shakedown
