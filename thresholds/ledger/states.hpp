// The state of each node and the way of each GPU, from their events. Pure: the same events give the same states.
#pragma once

#include <string>
#include <vector>

#include "thresholds/ledger/event.hpp"

namespace shakedown {

/// bad: a run failed, and two good runs that measured what failed have not followed. drained, repaired: people said so.
/// proven: drained or repaired, and the two good runs have followed; the node can return to service.
enum class LedgerState { bad, repaired, drained, proven, never_tested, good };
constexpr auto words(LedgerState) {
  return names("bad", "repaired", "drained", "proven again", "never tested", "good");
}

/// The number of good runs that prove a node after a failure: a fault that comes and goes passes one run.
inline constexpr std::size_t proving_runs = 2;

/// A GPU that took the place of another one.
struct Replacement {
  int slot = 0;
  std::string before, after;  // serial numbers, or UUIDs; before: empty if none was seen there
};

/// A repair with its proof. `before`: the last failed run, null if there was none. `after`: the runs that proved it.
struct Repair {
  const LedgerEvent* repair = nullptr;
  const LedgerEvent* before = nullptr;
  std::vector<const LedgerEvent*> after;
  std::vector<Replacement> replaced;
};

struct NodeRecord {
  std::string node;
  LedgerState state = LedgerState::never_tested;
  std::string since, reason;                 // of the event that began it
  const LedgerEvent* last_run = nullptr;     // whatever its outcome
  const LedgerEvent* last_tested = nullptr;  // the last whole run that was good or bad
  const LedgerEvent* last_bad = nullptr;
  std::vector<std::string> failed;  // keys that good runs must measure
  std::size_t proofs = 0;           // good runs that did, one after another
  bool is_drained = false;          // by `drained`, and not returned
  std::vector<Repair> repairs;
};

/// Returns a record of each node with an event or on the roster, in the order of names. `events` are by time and must
/// outlive the records.
std::vector<NodeRecord> node_records(const std::vector<LedgerEvent>& events,
                                     const std::vector<std::string>& roster = {});

/// A GPU that is followed by its serial number (UUID if that is unknown).
struct GpuRecord {
  struct Place {
    std::string node, since;
    int slot = 0;
  };
  std::string id;
  std::vector<Place> places;                    // the last one is where it is
  std::vector<const LedgerEvent*> accusations;  // runs that named it
};

std::vector<GpuRecord> gpu_records(const std::vector<LedgerEvent>&);

}  // namespace shakedown
