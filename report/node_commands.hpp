// Prints commands that tell the site's scheduler which nodes are bad or good. Never runs them.
#pragma once

#include <string>

#include "thresholds/judge/nodes.hpp"

namespace shakedown {

/// Returns the commands for Slurm. One line drains all bad nodes that have the same reason. One line undrains good
/// nodes that shakedown has drained, which it recognizes by the reason. No line changes undecided nodes. A node is
/// named by the first label of its host name, as in Slurm. If a host name has shell characters, or if its first label
/// is not unique, the output has a comment instead of a command.
std::string scontrol_commands(const NodeList&);

/// Returns the commands for Kubernetes, with cordon and uncordon. A node that shakedown cordons gets the label
/// shakedown=bad and an annotation with the reason.
std::string kubectl_commands(const NodeList&);

}  // namespace shakedown
