// Computes the state of each node, and the places of each GPU, from the events of a ledger. The functions are pure.
#pragma once

#include <string>
#include <vector>

#include "thresholds/ledger/event.hpp"

namespace shakedown {

/// bad: a run failed, and two good runs that measured what failed have not followed. drained, repaired: an event says
/// so. proven: drained or repaired, and the two good runs have followed; the node can return to service.
enum class LedgerState { bad, repaired, drained, proven, never_tested, good };
constexpr auto words(LedgerState) {
  return names("bad", "repaired", "drained", "proven again", "never tested", "good");
}

/// The number of good runs that prove a node after a failure. One run is not enough, because an intermittent fault may
/// not occur in it.
inline constexpr std::size_t proving_runs = 2;

/// A GPU that replaced another GPU at its place in the node.
struct Replacement {
  int slot = 0;
  std::string before, after;  // serial numbers, or UUIDs; `before` is empty if no GPU was seen in this slot
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
  std::string since, reason;                 // time and reason of the event with which the state began
  const LedgerEvent* last_run = nullptr;     // the last run, whatever its outcome
  const LedgerEvent* last_tested = nullptr;  // the last whole run that was good or bad
  const LedgerEvent* last_bad = nullptr;
  std::vector<std::string> failed;  // keys that good runs must measure
  std::size_t proofs = 0;           // number of successive good runs that measured these keys
  bool is_drained = false;          // true: an event `drained` was not followed by `returned`
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
  std::vector<Place> places;                    // places by time; the GPU is in the last one
  std::vector<const LedgerEvent*> accusations;  // runs whose verdict named the GPU
};

/// Returns the GPUs in the order of their ids. `events` are in the order of time, and must outlive the records.
std::vector<GpuRecord> gpu_records(const std::vector<LedgerEvent>&);

}  // namespace shakedown
