// The order of culprits and findings in all outputs: the worst first.
#pragma once

#include <optional>
#include <vector>

#include "thresholds/findings/diagnosis.hpp"
#include "thresholds/findings/finding.hpp"

namespace shakedown {

/// Returns how far the value of a bad finding misses its limit, in percent of the limit; for a spread, in percentage
/// points. nullopt for a finding without such a figure, such as a fact or an error.
std::optional<double> percent_off(const Finding&);

/// Sorts culprits: those that fail, then by kind (wrong data, slow parts, shared settings, processors, slow silicon),
/// then by percent_off, the largest first. Culprits whose percentages look equal (one digit) are in the order of their
/// places.
void sort_worst_first(std::vector<Diagnosis>&);

/// Sorts findings: those that count, then those without a figure in their given order, because facts and errors
/// explain figures, then by percent_off, the largest first. Findings whose percentages look equal are in the order of
/// their places.
void sort_worst_first(std::vector<const Finding*>&);

}  // namespace shakedown
