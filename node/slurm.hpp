// What Slurm thinks of a node, from the lines that `scontrol show node -o` prints, and what is wrong with that.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "node/fact.hpp"

namespace shakedown {

/// Of the node with this name: slurm_answers (1, or 0 and why), slurm_state, slurm_drained (1 with the reason where
/// Slurm gives the node no more jobs), slurm_gpus_missing (GPUs that Slurm promises and the PCI bus has not) and
/// slurm_gpus_unlisted (those that it does not know of). Without `gpus`, the number on the PCI bus, the last two are
/// unknown. `answer` is what scontrol printed, an error too.
Facts slurm_facts(std::string_view answer, std::string_view node, std::optional<double> gpus);

}  // namespace shakedown
