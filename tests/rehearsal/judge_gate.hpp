// Judges gates of simulated machines.
#pragma once

#include <utility>
#include <vector>

#include "report/rehearsal_outcome.hpp"
#include "thresholds/ledger/event.hpp"

namespace shakedown::rehearsal {

/// Returns the judgement of a gate. `accepted` is the number of earlier accepted runs of the same machine without its
/// faults, of which the ledger has the figures.
inline Verdict judge_gate(const Fleet& fleet, const std::vector<Profile>& profiles, int accepted) {
  std::vector<LedgerEvent> runs;
  for (int run = 0; run < accepted; ++run) {
    Order order = fleet.order();
    order.tier = Tier::quick;
    order.faults.clear();
    order.launch = static_cast<std::uint64_t>(run + 1);
    const Measured measured(Fleet(order).results());
    const Verdict verdict = judge_fleet(Fleet(order), profiles);
    for (LedgerEvent& event : events_of(verdict, &measured, "")) runs.push_back(std::move(event));
  }
  return judge_fleet(fleet, profiles, &runs);
}

}  // namespace shakedown::rehearsal
