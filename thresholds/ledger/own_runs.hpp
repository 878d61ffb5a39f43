// Earlier accepted runs of a node, with which a gate compares its GPUs.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "thresholds/history/own_record.hpp"
#include "thresholds/ledger/ledger.hpp"

namespace shakedown {

/// Returns the newest whole runs of this node that passed, with their figures, the newest first. Reads only files of
/// this node, and at most 50 of them, because a gate has seconds. Files that are no events are left out. Errors:
/// InputError or CannotRead if the folder cannot be read.
std::vector<LedgerEvent> newest_accepted_runs(const std::filesystem::path& ledger, const std::string& node);

/// Returns the record of those runs whose driver, CUDA and NCCL are those of this run, and whose node is in it.
OwnRecord own_record(const std::vector<LedgerEvent>& runs, const Measured&);

/// The accepted runs of a ledger that was read, by node.
class AcceptedRuns {
 public:
  /// The events must outlive this object.
  AcceptedRuns(std::filesystem::path folder, const Ledger&);

  /// Returns the record of each host of a run, of those of its newest accepted runs that began before `time`.
  std::map<std::string, OwnRecord> records(const Measured&, const std::string& time) const;

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::vector<const LedgerEvent*>> by_node_;  // the oldest first
};

}  // namespace shakedown
