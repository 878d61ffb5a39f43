// The view of `shakedown top`: hosts, their GPUs and ports at one moment as lines of text.
#pragma once

#include <string>

#include "base/host_activity.hpp"
#include "report/terminal_style.hpp"

namespace shakedown {

/// Returns a line for each host and for each GPU, and under the GPUs of a host its processes, their settings, its ports
/// and NCCL's state. A host without values is one line with the reason. Lines have at most `style.width` columns, if
/// that is 80 or more, and each ends with a newline. "-" is an unknown value.
std::string live_text(const Activity&, TerminalStyle style);

}  // namespace shakedown
