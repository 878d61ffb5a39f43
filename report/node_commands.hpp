// Prints the commands of the site's scheduler that follow `shakedown nodes`. Never runs them.
#pragma once

#include <string>

#include "thresholds/judge/nodes.hpp"

namespace shakedown {

/// Returns the commands for Slurm. One line drains all bad nodes with the same reason. One line undrains good nodes
/// that shakedown drained, which it recognizes by the reason. Undecided nodes are in neither line. Hosts have their
/// first label, as in Slurm. A host with shell characters, or whose first label is not unique, becomes a comment.
std::string scontrol_commands(const NodeList&);

/// Returns the same for Kubernetes, with cordon and uncordon. Nodes that shakedown cordons get the label shakedown=bad
/// and an annotation with the reason.
std::string kubectl_commands(const NodeList&);

}  // namespace shakedown
