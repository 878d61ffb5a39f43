// Findings about the start of a run: hosts that did not start, and launches that crashed before the first row.
#pragma once

#include <vector>

#include "thresholds/findings/finding.hpp"

namespace shakedown {

/// Returns the finding about a host that is not measured: machine/absent/host:NAME, missing, or, if its driver does not
/// answer, machine/driver_answers/host:NAME, a failure of that host.
Finding finding_of(const AbsentHost&);

/// Returns finding_of(AbsentHost) for each host that did not start, and machine/start_attempts, a warning, if ranks
/// were started more than once. Empty after a normal start.
std::vector<Finding> judge_start(const std::vector<Results>&);

/// True if the finding is about hosts that did not start.
bool is_of_absent(const Finding&, const std::vector<AbsentHost>&);

}  // namespace shakedown
