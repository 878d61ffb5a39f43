// What it means that some of many ranks miss a limit that every rank has to keep. Pure; docs/verdict.md has the rules.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "thresholds/findings/attribution.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/units/peers.hpp"

namespace shakedown {

/// Each rank that misses such a limit does so by itself, with the whole fleet, or by one value that nothing else of it
/// confirms. The attributions of these findings then name the first only, nobody, or nobody and fail nothing.
std::vector<Attribution> attribute_missed_limits(const std::vector<Finding>&, const Benchmarks&, const PeerComparison&);

}  // namespace shakedown
