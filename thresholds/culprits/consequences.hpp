// Finds the culprit that explains a finding, so that reports show one block for each cause. The functions are pure.
#pragma once

#include <cstddef>
#include <vector>

#include "thresholds/findings/diagnosis.hpp"
#include "thresholds/findings/finding.hpp"

namespace shakedown {

/// Returns the findings, each bad figure with the first culprit that explains it. A culprit explains
/// - figures of its own GPU, link, NIC or host, in the families that are its evidence
/// - collectives, training steps and copies of all GPUs at once, whose ranks wait for it
/// - the figures that are its evidence, if it is no single part (a setting or software).
/// A finding that counts is only explained by a culprit that fails. Facts, errors, wrong data and missing values are
/// never explained.
std::vector<Finding> with_culprits(std::vector<Finding>, const std::vector<Diagnosis>& culprits);

/// The findings that a culprit explains.
struct Consequences {
  std::size_t findings = 0;        // all of them
  std::size_t warnings = 0;        // those that do not count
  const Finding* worst = nullptr;  // misses its limit by most, those that count first; null if none has a figure
};

/// Returns the consequences of each culprit.
std::vector<Consequences> consequences_of(const std::vector<Diagnosis>& culprits, const std::vector<Finding>&);

}  // namespace shakedown
