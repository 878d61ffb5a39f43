// The judgement by peers: a rank against the ranks of the same kind in the same run. It needs no profile, so that it
// speaks on machines that nobody has measured before. Pure. The statistics are explained in docs/statistics.md.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/findings/finding.hpp"
#include "thresholds/findings/peer_comparison.hpp"
#include "thresholds/results/measured.hpp"

namespace shakedown {

/// `families`: only their benchmarks. Benchmarks with an error or a waiver are left out.
PeerComparison compare_peers(const Benchmarks&, const FamilySet& families);

/// One finding for each comparison that has outliers; none where nobody stands out.
std::vector<Finding> findings_of(const PeerComparison&);

/// "57 benchmarks x 4 ranks: nobody stands out"
std::string summary(const PeerComparison&);

}  // namespace shakedown
