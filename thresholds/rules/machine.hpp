// Findings about the machine and the run itself: whether all expected ranks reported once, and in one run.
#pragma once

#include <vector>

#include "thresholds/findings/finding.hpp"
#include "thresholds/findings/judge_options.hpp"

namespace shakedown {

/// Returns machine/complete, run_id, backend, ranks, hosts; with GPUs also gpus and unique_devices; and fault if an
/// injected fault is permitted. There is one finding of each kind for all files together. `gpus_per_host` is the number
/// in the profile.
std::vector<Finding> judge_machine(const std::vector<Results>&, const JudgeOptions&,
                                   std::optional<int> gpus_per_host = std::nullopt);

}  // namespace shakedown
