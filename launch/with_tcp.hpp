// The launch of ranks that connect over TCP, without a launcher of MPI: those of torchrun, of pods, and many on one
// host.
#pragma once

#include <optional>
#include <string>

#include "launch/launch.hpp"

namespace shakedown {

/// Returns the launch of one rank if torchrun, a pod's job or a script started several ranks, each with its own
/// shakedown. The ranks connect over TCP (fixtures/ranks/rendezvous.hpp).
std::optional<Launch> of_ranks(const Environment&, Launch);

/// Returns the launch of the ranks of this pod, if other pods start the other ranks of the job.
std::optional<Launch> of_pods(const LaunchSite&, Launch);

/// Returns the launch of many ranks on this host without MPI; nullopt if mpirun is quick enough.
std::optional<Launch> of_many_ranks(const LaunchSite&, Launch, int ranks);

/// Returns a number of ranks of one host. Errors: InputError if no host can run so many, or if it is 0.
int checked_ranks(int ranks, const std::string& variable);

/// Throws if this process is one rank of several but has no common address, because it would measure only its own
/// machine.
void refuse_a_rank_without_meeting_place(const Environment&);

}  // namespace shakedown
