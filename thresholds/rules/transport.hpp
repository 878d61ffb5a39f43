// Compares NCCL's transports with the connections of the machine. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "thresholds/findings/finding.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/rules/profile.hpp"

namespace shakedown {

/// Returns machine/nccl_transport: on hosts with NVLink, NCCL must reach every other rank of the host by P2P. Shared
/// memory or sockets cost nine tenths of the bandwidth without an error. nullopt if the transport is unknown, or the
/// profile has no NVLink.
std::optional<Finding> judge_transport(const std::vector<Results>&, const Profile&);

/// Returns machine/nccl_network: between hosts with active InfiniBand or RoCE ports, NCCL must not use sockets. nullopt
/// if it does not, or if the ports were not read.
std::optional<Finding> judge_network(const Measured&);

/// Returns a note if NCCL did not use NVSwitch multicast (NVLS), with the loss for the largest AllReduce: the
/// references of the profile with and without it for this number of ranks. nullopt if NVLS was on, or the profile does
/// not have both.
std::optional<std::string> note_on_nvls(const Results&, const Profile&);

}  // namespace shakedown
