// A comparison of settings of NCCL: as text, as JSON, and as a file that NCCL reads.
#pragma once

#include <string>

#include "thresholds/history/tuning.hpp"

namespace shakedown {

/// Returns the settings with the change in each size, and as last line the result.
std::string tuning_text(const Tuning&);

/// Returns the result in one line: what a setting in use costs, else which setting is recommended.
std::string tuning_line(const Tuning&);

/// Returns strict JSON with the value of each launch.
std::string tuning_json(const Tuning&);

/// Returns lines for /etc/nccl.conf or ~/.nccl.conf: the recommended setting, and its gains as comments. Only comments
/// if no setting is recommended.
std::string nccl_conf(const Tuning&);

}  // namespace shakedown
