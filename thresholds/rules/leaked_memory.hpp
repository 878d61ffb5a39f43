// GPU memory that a family did not release.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "thresholds/findings/finding.hpp"

namespace shakedown {

/// Returns machine/memory/rank:N, a warning, for each rank whose GPU has more than 64 MiB more in use after copies,
/// streams or memory tests: the next family has less, and a program that runs for days fails. Memory that libraries
/// keep by design (communicators, the code of products) is not judged.
std::vector<Finding> judge_leaked_memory(const std::vector<Results>&, const FamilySet& families);

}  // namespace shakedown
