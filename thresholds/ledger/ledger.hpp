// A ledger: a folder with one file for each event. Any number of writers on any number of hosts can add events without
// a lock, because a file is written under a temporary name and then renamed, which is atomic on NFS too. Nothing else
// is stored: the state of a node follows from its events. A file is one JSON object. The figures of a run, which are
// nine tenths of it, are in the second line and are read only if they are needed.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "thresholds/ledger/event.hpp"

namespace shakedown {

/// A file that is not an event, or an event of another release.
struct UnreadableEvent {
  std::string file, node, why;  // `node` is taken from the name of the file (in_file_name); empty if unknown
};

struct Ledger {
  std::vector<LedgerEvent> events;  // by time
  std::vector<UnreadableEvent> unreadable;
};

/// Returns the name of the file of an event: "20261126T180000Z-node7-run-4f2a.json".
std::string file_of(const LedgerEvent&);

/// Returns the name of a node as the names of its files have it, which is nearly always the same.
std::string in_file_name(const std::string& node);

/// Checks that events can be added, before an hour of measurement. Errors: CannotWrite if the folder is missing or
/// cannot be written.
void require_ledger(const std::filesystem::path& folder);

/// Adds an event. An event that the ledger already has is not changed. Errors: CannotWrite.
void add_event(const std::filesystem::path& folder, const LedgerEvent&);

/// Reads all events. Files with other names than *.json are left out, such as those of a writer that was killed.
/// Figures are read for runs of nodes that were bad, drained or repaired: because the proof of a repair needs them.
/// Errors: InputError or CannotRead if the folder cannot be read.
Ledger read_ledger(const std::filesystem::path& folder);

/// Calls `visit` with the events of one node, with figures, from the newest to the oldest, until it returns false.
/// Files that are no events are left out. Errors: InputError or CannotRead if the folder cannot be read.
void read_newest(const std::filesystem::path& folder, const std::string& node,
                 const std::function<bool(LedgerEvent)>& visit);

/// Reads the figures of the runs for which `is_wanted` holds.
void read_figures(const std::filesystem::path& folder, Ledger&,
                  const std::function<bool(const LedgerEvent&)>& is_wanted);

}  // namespace shakedown
