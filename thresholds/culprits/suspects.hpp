// Names the suspects that explain the findings and measurements of a run. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "thresholds/findings/diagnosis.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/units/table.hpp"

namespace shakedown {

/// All suspects in the only order there is: those that fail before those that do not, wrong data, what is slow by how
/// much it is slow, and then what has no place. `findings` are those of all judgements, `network` the suspects between
/// hosts. A part that a suspect explains is not a suspect of its own.
std::vector<Diagnosis> diagnose(const Benchmarks&, UnitTable, const std::vector<Finding>& findings,
                                std::vector<Diagnosis> network);

}  // namespace shakedown
