// Reads the state of a node in Slurm, and problems with it, from the output of `scontrol show node -o`.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "node/fact.hpp"

namespace shakedown {

/// Returns facts of the node with this name. slurm_answers is 1, or 0 with the reason. slurm_state is the state.
/// slurm_drained is 1 with the reason if Slurm does not give the node any more jobs. slurm_gpus_missing counts GPUs
/// that Slurm has configured but that are not on the PCI bus; slurm_gpus_unlisted counts those that are only on the
/// bus. `gpus` is the number on the PCI bus; without this number, slurm_gpus_missing and slurm_gpus_unlisted are
/// unknown. `answer` is the output of scontrol, which may be an error.
Facts slurm_facts(std::string_view answer, std::string_view node, std::optional<double> gpus);

}  // namespace shakedown
