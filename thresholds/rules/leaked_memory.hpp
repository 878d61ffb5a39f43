// Memory of GPUs that a family did not give back.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "thresholds/findings/finding.hpp"

namespace shakedown {

/// Key machine/memory/rank:N, a warning for each rank after whose copies, streams or memory tests more than 64 MiB of
/// its GPU stayed in use: the next family has less, and a program that runs for days ends there. What libraries keep by
/// design (communicators, the code of products) is not judged.
std::vector<Finding> judge_leaked_memory(const std::vector<Results>&, const FamilySet& families);

}  // namespace shakedown
