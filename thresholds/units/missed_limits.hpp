// Attributes missed limits of rules for every rank to single ranks or to the whole fleet. Pure; docs/verdict.md has the
// rules.
#pragma once

#include <vector>

#include "thresholds/findings/attribution.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/units/table.hpp"

namespace shakedown {

/// Returns the table with these limits: for each unit that misses one, the numbers of its limits and misses in a class.
UnitTable with_limits(UnitTable, const std::vector<Finding>&, const Benchmarks&);

/// Returns attributions. A rank misses a limit by itself, with the whole fleet, or by one value without confirmation.
/// An attribution names the ranks of the first kind; if all are of the last kind, the finding only warns. The table is
/// that of with_limits() for the same findings.
std::vector<Attribution> attribute_missed_limits(const std::vector<Finding>&, const Benchmarks&, const UnitTable&);

}  // namespace shakedown
