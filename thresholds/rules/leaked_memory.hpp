// GPU memory that a family did not release.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "thresholds/findings/finding.hpp"

namespace shakedown {

/// Returns a warning machine/memory/rank:N for each rank whose GPU has at least 64 MiB more memory in use after copies,
/// streams or memory tests. The next family then has less memory, and a program that runs for days would fail. Memory
/// that libraries keep by design (communicators, code of products) is not judged.
std::vector<Finding> judge_leaked_memory(const std::vector<Results>&, const FamilySet& families);

}  // namespace shakedown
