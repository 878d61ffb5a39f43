// Chooses at run time how programs are started on all ranks. The functions are pure.
#pragma once

#include <optional>

#include "launch/launch.hpp"

namespace shakedown {

/// Returns the rank of this process if another program started the ranks (see choose_launch); nullopt if this process
/// starts them.
std::optional<int> rank_of(const Environment&);

/// Chooses the launch. The first of these cases decides:
/// - SHAKEDOWN_LAUNCH is the complete prefix.
/// - RANK, WORLD_SIZE above 1, MASTER_ADDR and MASTER_PORT make this process one rank, as under torchrun.
/// - The variables of torchrun in a pod that starts this program once (pods.hpp): this process starts the ranks of its
///   GPUs, and other pods start the others.
/// - A heterogeneous Slurm job uses srun on all its components.
/// - A Slurm job of several nodes, with more tasks than this host has ranks, or on another host (salloc on a login
///   node) uses srun, or mpirun if there is no srun. One task of a step on one node uses all GPUs that srun gave it.
/// - The host file of Open MPI's variable means mpirun on all its hosts. The hosts that LSF or an operator of MPICH or
///   Intel MPI lists mean mpirun, which starts its daemons with the agent of that scheduler, such as blaunch.
/// - Otherwise the GPUs of this host are used with mpirun: SHAKEDOWN_RANKS ranks, else one for each GPU, else 2.
///   Without mpirun there is one process. More than 128 ranks start without mpirun (local_ranks.hpp).
/// Throws if the launch would not measure a part of the allocation, because the gap would not be noticed. Errors:
/// CannotRun; InputError for an invalid list of nodes.
Launch choose_launch(const LaunchSite&);

}  // namespace shakedown
