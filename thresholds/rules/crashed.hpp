// Programs that died while they measured, whatever was measured in their place afterwards.
#pragma once

#include <optional>
#include <vector>

#include "thresholds/findings/finding.hpp"

namespace shakedown {

/// Key machine/crashed, a fail that names the families, and the hosts that were lost with the programs where each took
/// one along; nothing where no program died.
std::optional<Finding> judge_crashed(const std::vector<Results>&);

}  // namespace shakedown
