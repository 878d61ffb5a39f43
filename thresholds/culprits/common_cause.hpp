// Explains slow collectives and missed limits by a cause that ranks share, or by one rank that all others wait for.
// Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/culprits/evidence.hpp"

namespace shakedown {

/// A further effect of a suspect: other ranks wait for it.
struct Consequence {
  std::size_t suspect = 0;  // index among those that were found
  std::string reason;
};

/// A suspect of its own, or a consequence of one that was found before; neither: there is nothing to explain.
struct Explanation {
  std::optional<Diagnosis> suspect = std::nullopt;
  std::optional<Consequence> consequence = std::nullopt;
};

/// Why collectives are slow: a late rank, else one of `found`, else the configuration.
Explanation explain_collectives(const RunEvidence&, const std::vector<Diagnosis>& found);

/// The limits that most ranks miss, or ranks that are like their peers: the whole fleet against its reference. Where
/// these are steps, in which all ranks wait for each other, one of `found` may explain them.
Explanation explain_missed_alike(const RunEvidence&, const std::vector<Diagnosis>& found);

/// The suspects with what an explanation adds to them.
std::vector<Diagnosis> explained(std::vector<Diagnosis> found, const Explanation&);

/// Whether one of `found` other than slow silicon is this rank, or its host.
bool is_named(const std::vector<Diagnosis>& found, const RankFacts&);

}  // namespace shakedown
