// The judgement by peers: a rank against the ranks of the same kind in the same run. It needs no profile, and so works
// on a machine that was never measured before. Pure. docs/statistics.md explains the statistics.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "thresholds/findings/finding.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/units/table.hpp"

namespace shakedown {

/// Builds the table of a run from the benchmarks of these families. Benchmarks with an error or a waiver are left out.
UnitTable compare_peers(const Benchmarks&, const FamilySet& families);

/// The families in which ranks were compared and can fail by the comparison.
std::set<std::string> compared_families(const UnitTable&);

/// One finding for each comparison that has outliers.
std::vector<Finding> findings_of(const UnitTable&);

/// "57 values of 4 ranks compared, none stands out"
std::string summary(const UnitTable&);

}  // namespace shakedown
