// The page that somebody on call acts on: what is at fault, where it is, the evidence, and the next command.
#pragma once

#include <string>
#include <vector>

#include "thresholds/judge/nodes.hpp"
#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// "rank 3, node7 GPU 3, GPU-4f2a, serial 1650, 0000:1b:00.0"
std::string place_text(const Culprit&);

/// Commands for what repair desks ask for, to be run before anything is restarted; none where no hardware is at fault.
std::vector<std::string> repair_commands(const Verdict&);

/// Empty where nothing is at fault and nobody would ask. The worst come first; beyond the first few, culprits are
/// counted by node.
std::string culprits_text(const Verdict&, bool color);

/// The judgements side by side, one line each, for a verdict that has them.
std::string judgements_text(const Verdict&);

/// What to do with every node, as JSON, schema 1. The verdict is spelled as in verdict.json.
std::string nodes_json(const NodeList&);

}  // namespace shakedown
