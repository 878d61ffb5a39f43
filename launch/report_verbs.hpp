// The verbs that show and use stored results: report, nodes, fleet, archive.
#pragma once

#include <string>
#include <vector>

#include "report/arguments.hpp"
#include "report/reason.hpp"

namespace shakedown {

// Each verb returns the exit code.
int report(const Arguments&, const ReasonChannel&);
int nodes(const Arguments&);
int fleet(const Arguments&);
int archive(const Arguments&);

/// Removes old host files if the input could not be judged, because then no node is proven good.
void replace_nodes(const std::vector<std::string>& words, const std::string& why);

}  // namespace shakedown
