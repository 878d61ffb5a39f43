// Compares each rank with the ranks of the same kind in the same run. The comparison needs no profile, so it also works
// on unknown machines. The functions are pure. docs/statistics.md explains the statistics.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "thresholds/findings/finding.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/units/table.hpp"

namespace shakedown {

/// Makes the table of a run from the benchmarks of these families, without errors and waivers. `launches` is the
/// difference that healthy ranks may have because they were measured in different launches; it is added to the
/// difference within a launch.
UnitTable compare_peers(const Benchmarks&, const FamilySet& families, double launches = 0);

/// Returns the families in which ranks were compared and can fail.
std::set<std::string> compared_families(const UnitTable&);

/// Returns one finding for each comparison with outliers.
std::vector<Finding> findings_of(const UnitTable&);

/// Returns "57 values of 4 ranks compared, no outlier".
std::string summary(const UnitTable&);

}  // namespace shakedown
