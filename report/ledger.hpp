// The verbs that use a ledger (thresholds/ledger): ledger add, history, retest; and the record of a run after accept.
#pragma once

#include <filesystem>
#include <optional>

#include "report/arguments.hpp"
#include "thresholds/ledger/ledger.hpp"

namespace shakedown {

/// Returns the ledger folder of --ledger, SHAKEDOWN_LEDGER or the site file; nullopt if none of them names a folder.
std::optional<std::filesystem::path> ledger_of(const Arguments&);

/// Prints a line on stderr for each event that could not be read. Returns `code`, or 3 instead of 0 if there is such an
/// event.
int warn_of_unreadable(const Ledger&, int code);

/// Adds an event for each node of a run to this ledger. Returns `code`, or 3 instead of 0 with a line on stderr
/// if the ledger cannot be written. `run_id` is for a run without results.
int record_run(const std::filesystem::path& ledger, const Judged&, const std::filesystem::path& run,
               const std::string& run_id, int code);

/// shakedown ledger add: adds an event for each node that --node names, or for each node of the runs in --results.
int add_to_ledger(const Arguments&);

/// shakedown history: prints the state of each node, or the history of the node, GPU or metric that the operand names.
int history(const Arguments&);

/// shakedown retest NODE: prints the commands that reserve the node and load what failed, or that return it to service.
int retest(const Arguments&);

}  // namespace shakedown
