// Heterogeneous Slurm jobs: components with different resources, on which one srun starts ranks that form one job.
#pragma once

#include <string>
#include <vector>

#include "launch/launch.hpp"

namespace shakedown {

/// Nodes of a Slurm job that have the same resources.
struct SlurmComponent {
  int group = 0;  // the number for srun's --het-group
  std::vector<std::string> hosts;
  int tasks = 0;
  bool has_gpus = false;  // true if the job asked for GPUs by an option that Slurm passes on; --gres is none
};

/// Returns the components of a heterogeneous job; empty if the job is not heterogeneous, and if Slurm does not list the
/// nodes of each component. Errors: InputError for an invalid list of nodes.
std::vector<SlurmComponent> slurm_components(const Environment&);

/// Completes the launch with srun on all components: one rank for each GPU, or the tasks of the component if there are
/// more tasks than GPUs. A component for which the job asked for no GPUs is left out, with a note, if another one has
/// GPUs. Errors: CannotRun for a component of which only the answers of its hosts say that they have no GPU, because
/// these may be lost GPUs.
Launch of_components(const LaunchSite&, Launch, std::vector<SlurmComponent>);

}  // namespace shakedown
