// The result of the judge on a fleet with known faults.
#pragma once

#include <array>

#include "thresholds/judge/judge.hpp"
#include "thresholds/ledger/own_runs.hpp"
#include "thresholds/rehearsal/fleet.hpp"

namespace shakedown::rehearsal {

/// How well a verdict names the planted faults.
struct Outcome {
  State state = State::incomplete;
  bool first = false;     // the first failing part is a planted one
  bool named = false;     // each planted part is named by a failing line
  bool located = false;   // or at least its host
  bool hinted = false;    // each planted part is named by a failing line or an informing one
  bool innocent = false;  // a failing line names only healthy parts, or more than two with a planted one
};

/// Returns the judgement as `shakedown report` makes it, with a site file of racks and leaf switches.
/// `own_runs`: for a gate, earlier accepted runs.
Verdict judge_fleet(const Fleet&, const std::vector<Profile>&, const std::vector<LedgerEvent>* own_runs = nullptr);

/// True if the diagnosis is about the planted part.
bool names(const Fleet&, const Fault&, const Diagnosis&);

/// Compares the failing lines of a verdict with the faults of the fleet.
Outcome outcome_of(const Fleet&, const Verdict&);

}  // namespace shakedown::rehearsal
