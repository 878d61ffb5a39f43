// What lies in something that ranks share, or in one rank that all others wait for: settings, collectives, lateness.
// Pure.
#pragma once

#include <vector>

#include "thresholds/culprits/evidence.hpp"
#include "thresholds/findings/rank_telemetry.hpp"

namespace shakedown {

/// Adds why collectives are slow to what was found so far: a late rank, else one of `found` (whose detail then says
/// so), else the configuration.
void explain_collectives(const RunEvidence&, const RankTelemetry&, std::vector<Diagnosis>& found);

/// Adds the limits that most ranks miss, or ranks that are like their peers: the whole fleet against its reference.
/// Where these are steps, in which all ranks wait for each other, one of `found` may explain them.
void explain_missed_alike(const RunEvidence&, const RankTelemetry&, std::vector<Diagnosis>& found);

/// Whether one of `found` other than slow silicon is this rank, or its host.
bool is_named(const std::vector<Diagnosis>& found, const RankFacts&);

}  // namespace shakedown
