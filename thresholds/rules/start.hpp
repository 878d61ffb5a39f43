// Findings about the start of a run: hosts that did not start, and launches that crashed before the first row.
#pragma once

#include <vector>

#include "thresholds/findings/finding.hpp"

namespace shakedown {

/// Returns the finding about a host that is not measured: machine/absent/host:NAME, which is missing. If the driver of
/// the host does not respond, it is machine/driver_answers/host:NAME, which fails.
Finding finding_of(const AbsentHost&);

/// Returns finding_of(AbsentHost) for each host that did not start. If ranks were started more than once, adds the
/// warning machine/start_attempts. Empty after a normal start.
std::vector<Finding> judge_start(const std::vector<Results>&);

/// True if the finding is about hosts that did not start.
bool is_of_absent(const Finding&, const std::vector<AbsentHost>&);

}  // namespace shakedown
