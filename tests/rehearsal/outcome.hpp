// The answer of the judge on a fleet whose faults are known.
#pragma once

#include <array>

#include "thresholds/judge/judge.hpp"
#include "thresholds/rehearsal/fleet.hpp"

namespace shakedown::rehearsal {

struct Outcome {
  State state = State::incomplete;
  bool first = false;     // the first that fails is a planted part
  bool named = false;     // each planted part is named by something that fails
  bool located = false;   // at least the host of each planted part is
  bool hinted = false;    // each planted part is named, by a line that fails or by one that informs
  bool innocent = false;  // something that fails names only healthy parts, or more than two with a planted one
};

/// The judgement as `shakedown report` makes it, with a site file that tells racks and leaves.
Verdict judge_fleet(const Fleet&, const std::vector<Profile>&);

/// Returns whether the diagnosis is of the planted part.
bool names(const Fleet&, const Fault&, const Diagnosis&);

Outcome outcome_of(const Fleet&, const Verdict&);

/// What `k` of `n` says at most, with 95 % (Clopper and Pearson, 1934; one side): the rule of three where k is 0.
double upper_bound(int k, int n);

}  // namespace shakedown::rehearsal
