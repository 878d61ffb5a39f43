// Findings about the machine and the run itself: did everybody report who should, once, and from the same run?
#pragma once

#include <optional>
#include <vector>

#include "thresholds/judge.hpp"

namespace shakedown {

/// Keys machine/complete, run_id, backend, ranks, hosts; with GPUs also gpus and unique_devices; with an injected fault
/// that options allow also fault. Each exists once per set of files.
std::vector<Finding> judge_machine(const std::vector<Results>&, const JudgeOptions&);

/// Key machine/nccl_transport: on hosts whose GPUs have NVLink, NCCL must reach every other rank of the host by P2P. A
/// fall-back to shared memory or sockets costs nine tenths of the bandwidth without an error. Nothing where no run
/// tells which way NCCL went, or the profile has no NVLink.
std::optional<Finding> judge_transport(const std::vector<Results>&, const Profile&);

}  // namespace shakedown
