// Explains slow collectives and missed limits by a shared cause, or by one rank for which all others wait. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/culprits/evidence.hpp"

namespace shakedown {

/// An additional effect of a suspect: other ranks wait for it.
struct Consequence {
  std::size_t suspect = 0;  // index among the found suspects
  std::string reason;
};

/// A new suspect, or a consequence of a found one. Without either, there is nothing to explain.
struct Explanation {
  std::optional<Diagnosis> suspect = std::nullopt;
  std::optional<Consequence> consequence = std::nullopt;
};

/// Returns why collectives are slow: a late rank, else one of `found`, else the configuration.
Explanation explain_collectives(const RunEvidence&, const std::vector<Diagnosis>& found);

/// Returns the limits that most ranks miss, or that ranks without being outliers miss: the whole fleet against its
/// reference. If these are limits of training steps, one of `found` may explain them, because ranks wait for each
/// other.
Explanation explain_missed_alike(const RunEvidence&, const std::vector<Diagnosis>& found);

/// Returns the suspects, extended by the explanation.
std::vector<Diagnosis> explained(std::vector<Diagnosis> found, const Explanation&);

/// True if one of `found` other than slow silicon is this rank, or its host.
bool is_named(const std::vector<Diagnosis>& found, const RankFacts&);

}  // namespace shakedown
