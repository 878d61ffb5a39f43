#include "launch/pods.hpp"

#include "launch/variables.hpp"

namespace shakedown {

std::optional<Pod> pod_of(const Environment& environment) {
  const auto either = [&](const char* of_torchrun, const char* of_rank) {
    const auto value = set_in(environment, of_torchrun);
    return value ? value : set_in(environment, of_rank);
  };
  const auto pods = set_in(environment, "PET_NNODES"), processes = set_in(environment, "PET_NPROC_PER_NODE");
  if ((!pods && !processes) || set_in(environment, "LOCAL_RANK")) return std::nullopt;
  const auto number = either("PET_NODE_RANK", "RANK"), count = either("PET_NNODES", "WORLD_SIZE"),
             address = either("PET_MASTER_ADDR", "MASTER_ADDR"), port = either("PET_MASTER_PORT", "MASTER_PORT");
  if (!number || !count || !address || !port) return std::nullopt;
  if (count->find(':') != std::string::npos) return std::nullopt;  // torchrun would decide how many pods take part
  Pod pod{number_of(*number, "PET_NODE_RANK or RANK"), number_of(*count, "PET_NNODES or WORLD_SIZE"), 0, *address,
          *port};
  if (processes && whole_number<int>(*processes)) pod.processes = number_of(*processes, "PET_NPROC_PER_NODE");
  if (pod.number >= pod.count) {
    throw InputError("PET_NODE_RANK or RANK=" + *number + " is not below the number of pods, " + *count +
                     " by PET_NNODES or WORLD_SIZE: correct or unset them");
  }
  return pod;
}

}  // namespace shakedown
