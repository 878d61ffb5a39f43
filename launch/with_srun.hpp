// The launch with srun, for Slurm jobs of several nodes and for those with components.
#pragma once

#include <optional>

#include "launch/launch.hpp"

namespace shakedown {

/// Returns the launch of `ranks` ranks on each host of a Slurm job; nullopt if this is none, or if it needs no srun.
std::optional<Launch> of_slurm(const LaunchSite&, Launch, int ranks);

/// Returns the launch on all components of a heterogeneous Slurm job; nullopt if this is none.
std::optional<Launch> of_heterogeneous_slurm(const LaunchSite&, Launch);

/// Throws if the variables of an unknown scheduler promise several hosts, because hosts of the job would not be
/// measured.
void refuse_promised_hosts(const Environment&);

}  // namespace shakedown
