// The times in which a GPU was at fault, from the runs of a ledger. Pure.
#pragma once

#include <string>
#include <vector>

#include "thresholds/ledger/event.hpp"

namespace shakedown {

/// The time in which a GPU was at fault. An outage begins with the first run that found the GPU at fault. An outage
/// ends with the first good run that measured the GPU and everything that had failed, or with a good run of the node
/// that had as many GPUs without this one.
struct Outage {
  std::string gpu;  // serial number, or UUID
  std::string node, device;
  std::vector<const LedgerEvent*> runs;  // runs that found the GPU at fault, by time; never empty
  const LedgerEvent* end = nullptr;      // null: no good run has followed

  /// Returns the hours from the first to the last run that found the GPU at fault.
  double proven_hours() const;
  /// Returns the hours from the first run that found the GPU at fault to the end of the outage, or to `now` (UTC, ISO
  /// 8601).
  double hours(const std::string& now) const;
};

/// Returns the outages by the time at which they began. A run that names no GPU of a bad node counts for all GPUs of
/// the node. `events` are by time, with their figures, and must outlive the outages.
std::vector<Outage> outages_of(const std::vector<LedgerEvent>& events);

}  // namespace shakedown
