// Decides, for limits that every rank must meet, whether single ranks miss them or the whole fleet. The functions are
// pure. docs/verdict.md has the rules.
#pragma once

#include <vector>

#include "thresholds/findings/attribution.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/units/table.hpp"

namespace shakedown {

/// Returns the table with these limits: for each unit that misses one, the number of its limits in a class, and how
/// many of them it misses.
UnitTable with_limits(UnitTable, const std::vector<Finding>&, const Benchmarks&);

/// Returns attributions. A rank misses a limit by itself, or with the whole fleet, or in one value that nothing
/// confirms. An attribution names the ranks that miss it by themselves. If nothing confirms any of the values, the
/// finding is only a warning. The table is that of with_limits() for the same findings.
std::vector<Attribution> attribute_missed_limits(const std::vector<Finding>&, const Benchmarks&, const UnitTable&);

}  // namespace shakedown
