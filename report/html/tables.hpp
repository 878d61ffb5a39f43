// The pages of a fleet and of a history: tables and drawings without scripts.
#pragma once

#include <string>

#include "report/history.hpp"
#include "thresholds/ledger/fleet.hpp"

namespace shakedown {

/// Returns a page with a row for each node, bad nodes first.
std::string html_text(const Fleet&);

/// Returns a page with the state of each node, and a drawing of each figure that changed, with its changes marked.
std::string html_text(const History&);

}  // namespace shakedown
