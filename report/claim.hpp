// A claim against the provider of machines that failed: which GPUs, by how much, for how long, and what that costs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/arguments.hpp"
#include "thresholds/ledger/outages.hpp"

namespace shakedown {

/// Returns the claim as Markdown, with at most this number of rows in each table: with 20, two printed pages. `outages`
/// are those of the run's GPUs; `price` is that of a GPU for an hour. Without it, the claim has no money.
std::string claim_text(const Verdict&, const std::vector<Outage>& outages, const std::string& now,
                       std::optional<double> price, std::size_t most = max_lines_shown);

/// shakedown claim: prints the claim about a failed run. The ledger has the runs before and after it. Returns 0, or 3
/// if there is nothing to claim because the verdict is not FAIL or names no node, or if an event cannot be read.
/// Errors: InputError, also for results without a run id.
int claim(const Arguments&);

}  // namespace shakedown
