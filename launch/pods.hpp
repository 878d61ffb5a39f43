// Pods that each start this program once for all their GPUs, as those of Kubeflow's PyTorchJob and TrainJob start
// torchrun.
#pragma once

#include <optional>
#include <string>

#include "base/environment.hpp"

namespace shakedown {

/// The place of this pod among the pods of its job, and the address of rank 0.
struct Pod {
  int number = 0, count = 1;
  int processes = 0;  // ranks of each pod; 0 if the pod has one for each of its GPUs
  std::string address, port;
};

/// Returns the place of this pod from the variables that torchrun reads: PET_NNODES and PET_NPROC_PER_NODE, with
/// PET_NODE_RANK, PET_MASTER_ADDR and PET_MASTER_PORT, or with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. nullopt
/// if these are missing, and if torchrun or MPI has already started this process as a rank. Errors: InputError if a
/// variable is not a number, or if the number of the pod is not below the number of pods.
std::optional<Pod> pod_of(const Environment&);

}  // namespace shakedown
