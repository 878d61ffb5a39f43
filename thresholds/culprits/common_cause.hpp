// Explains slow collectives and missed limits by a cause that all ranks share, or by one rank for which all others
// wait. The functions are pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/culprits/evidence.hpp"

namespace shakedown {

/// An additional effect of a suspect: other ranks wait for this suspect.
struct Consequence {
  std::size_t suspect = 0;  // index in the list of suspects
  std::string reason;
};

/// A new suspect, or a consequence of a suspect that was found before. If both are missing, there is nothing to
/// explain. The new suspect explains those of `replaces`, which are indices in the list of suspects.
struct Explanation {
  std::optional<Diagnosis> suspect = std::nullopt;
  std::optional<Consequence> consequence = std::nullopt;
  std::vector<std::size_t> replaces = {};
};

/// Returns why collectives are slow: because of a late rank, else because of one of `found`, else because of the
/// configuration.
Explanation explain_collectives(const RunEvidence&, const std::vector<Diagnosis>& found);

/// Explains the limits that most ranks miss, and those that ranks miss without being outliers. Such limits show that
/// the whole fleet is below its reference. Healthy GPUs of such a fleet may miss a limit by themselves, because they
/// are a little slower than others: if they miss limits of the same families by less, the fleet explains them. Missed
/// limits of training steps may be explained by one of `found`, because ranks wait for each other.
Explanation explain_missed_alike(const RunEvidence&, const std::vector<Diagnosis>& found);

/// Returns the suspects, extended by the explanation. A suspect whose consequence misses a limit fails.
std::vector<Diagnosis> explained(std::vector<Diagnosis> found, const Explanation&);

/// True if ranks that wait for this suspect may become slower by this percentage.
bool may_delay(const Diagnosis&, double percent);

/// True if `found` contains this rank or its host, for another reason than slow silicon.
bool is_named(const std::vector<Diagnosis>& found, const RankFacts&);

}  // namespace shakedown
