// Which way NCCL went, against the ways that the machine has. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "thresholds/findings/finding.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/rules/profile.hpp"

namespace shakedown {

/// Key machine/nccl_transport: on hosts whose GPUs have NVLink, NCCL must reach every other rank of the host by P2P. A
/// fall-back to shared memory or sockets costs nine tenths of the bandwidth without an error. Nothing where no run
/// tells which way NCCL went, or the profile has no NVLink.
std::optional<Finding> judge_transport(const std::vector<Results>&, const Profile&);

/// Key machine/nccl_network: between hosts on which InfiniBand or RoCE ports are up, by pre-flight, NCCL must not go by
/// sockets. nullopt if it does not, or if the ports were not read.
std::optional<Finding> judge_network(const Measured&);

/// Returns a note if NCCL did not use the multicast of NVSwitches (NVLS), with the cost of that for the largest
/// AllReduce: the references of the profile with and without it, for this number of ranks. nullopt if NVLS was on, or
/// the profile does not have both.
std::optional<std::string> note_on_nvls(const Results&, const Profile&);

}  // namespace shakedown
