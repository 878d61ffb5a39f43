// What an operator types after `shakedown nodes`, for the scheduler of the site. Printed, never run.
#pragma once

#include <string>

#include "thresholds/judge/nodes.hpp"

namespace shakedown {

/// Slurm: one drain line for all bad nodes of one reason, and one that undrains good nodes which we drained: those
/// whose reason begins with ours. An undecided node is in neither. Hosts by their first label, as Slurm names them; one
/// that has characters which a shell understands, or no first label of its own, is a comment.
std::string scontrol_commands(const NodeList&);

/// Kubernetes: the same by cordon and uncordon. What we cordoned has the label shakedown=bad; the reason is an
/// annotation.
std::string kubectl_commands(const NodeList&);

}  // namespace shakedown
