// The page for the engineer on call: the fault, its location, the evidence, and the next command.
#pragma once

#include <string>
#include <vector>

#include "report/terminal.hpp"
#include "thresholds/judge/nodes.hpp"
#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns the commands whose output repair desks ask for, to be run before a restart. Empty without a hardware fault.
std::vector<std::string> repair_commands(const Verdict&);

/// Returns the list of culprits, the worst first, and the commands for the repair desk. After the first few, culprits
/// are only counted by node. Lines other than commands fit into the width. Empty if there are neither culprits nor
/// commands.
std::string culprits_text(const Verdict&, TerminalStyle);

/// Returns the judgements side by side, one line each, if the verdict has them.
std::string judgements_text(const Verdict&);

/// Returns the decision for every node as JSON, schema 1. Verdicts are spelled as in verdict.json.
std::string nodes_json(const NodeList&);

}  // namespace shakedown
