// Checks whether files with one run id can be from one run. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "thresholds/results/results.hpp"

namespace shakedown {

/// Returns why two files with the same run id cannot be from one run; nullopt if they can.
std::optional<std::string> contradiction(const std::vector<Results>&);

}  // namespace shakedown
