// Reports programs that crashed during the measurement, even if their families were measured afterwards.
#pragma once

#include <optional>
#include <vector>

#include "thresholds/findings/finding.hpp"

namespace shakedown {

/// Returns a fail with the key machine/crashed. The finding names the families. If each crash was the loss of a host,
/// it also names the hosts; otherwise it names the GPUs of the ranks that died, if they are known. nullopt if no
/// program crashed.
std::optional<Finding> judge_crashed(const std::vector<Results>&);

}  // namespace shakedown
