// Names the suspects that explain the findings and measurements of a run. The functions are pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "thresholds/findings/diagnosis.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/units/table.hpp"

namespace shakedown {

/// Returns all suspects in their final order: those that fail the run first, then wrong data, then by shortfall, and
/// last those without a place. `findings` are those of all judgements, and `network` has the suspects between hosts. If
/// a suspect explains the fault of another part, that part is not listed as a suspect.
std::vector<Diagnosis> diagnose(const Benchmarks&, UnitTable, const std::vector<Finding>& findings,
                                std::vector<Diagnosis> network);

}  // namespace shakedown
