// Findings about the machine and the run itself: did everybody report who should, once, and from the same run?
#pragma once

#include <vector>

#include "thresholds/findings/finding.hpp"
#include "thresholds/findings/judge_options.hpp"

namespace shakedown {

/// Keys machine/complete, run_id, backend, ranks, hosts; with GPUs also gpus and unique_devices; with an injected fault
/// that options allow also fault. Each exists once per set of files.
/// `gpus_per_host`: what the profile says machines of this kind have.
std::vector<Finding> judge_machine(const std::vector<Results>&, const JudgeOptions&,
                                   std::optional<int> gpus_per_host = std::nullopt);

}  // namespace shakedown
