// Names the suspects that explain the findings and measurements of a run. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "thresholds/findings/diagnosis.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/units/table.hpp"

namespace shakedown {

/// Returns all suspects in the final order: failing ones first, then wrong data, then by shortfall, then those without
/// a place. `findings` are those of all judgements, `network` the suspects between hosts. A part whose fault a suspect
/// explains is not a suspect of its own.
std::vector<Diagnosis> diagnose(const Benchmarks&, UnitTable, const std::vector<Finding>& findings,
                                std::vector<Diagnosis> network);

}  // namespace shakedown
