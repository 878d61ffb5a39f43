// Compares the transports that NCCL uses with the connections of the machine. The functions are pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "thresholds/findings/finding.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/rules/profile.hpp"

namespace shakedown {

/// Returns machine/nccl_transport: on hosts with NVLink, NCCL must reach every other rank of the host by P2P. Shared
/// memory or sockets cost nine tenths of the bandwidth and cause no error. nullopt if the transport is unknown, or if
/// the profile has no NVLink.
std::optional<Finding> judge_transport(const std::vector<Results>&, const Profile&);

/// Returns machine/nccl_network: between hosts with active InfiniBand or RoCE ports, NCCL must not use sockets. nullopt
/// if it does not use sockets, or if the ports were not read.
std::optional<Finding> judge_network(const Measured&);

/// Returns a note if NCCL did not use NVSwitch multicast (NVLS). The note gives the loss for the largest AllReduce,
/// from the references with and without NVLS that the profile has for this number of ranks. nullopt if NVLS was on, or
/// if the profile does not have both references.
std::optional<std::string> note_on_nvls(const Results&, const Profile&);

}  // namespace shakedown
