// The text for the engineer on call: the fault, its location, the evidence, and the next command.
#pragma once

#include <string>
#include <vector>

#include "report/terminal_style.hpp"
#include "thresholds/judge/nodes.hpp"
#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns commands to run before a restart, because repair desks ask for their output. Empty without a hardware fault.
std::vector<std::string> repair_commands(const Verdict&);

/// Returns the list of culprits, the worst first, and the commands for the repair desk. Only the first few culprits are
/// described; further culprits are counted by node. All lines except commands fit into the width. Empty if there are
/// neither culprits nor commands.
std::string culprits_text(const Verdict&, TerminalStyle);

/// Returns one line for each judgement if the verdict has several, else an empty text.
std::string judgements_text(const Verdict&);

/// Returns the decision for every node as JSON, schema 1. Verdicts are spelled as in verdict.json.
std::string nodes_json(const NodeList&);

}  // namespace shakedown
