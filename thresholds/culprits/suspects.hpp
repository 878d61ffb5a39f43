// Puts findings and measurements together to what is at fault. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "thresholds/findings/diagnosis.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/units/peers.hpp"

namespace shakedown {

/// `findings` are those of all judgements; the worst suspect comes first, those that fail nothing last.
std::vector<Diagnosis> diagnose(const Benchmarks&, const PeerComparison&, const std::vector<Finding>&);

}  // namespace shakedown
