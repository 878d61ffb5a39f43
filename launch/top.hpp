// The verb top: a live view of hosts, their GPUs and ports.
#pragma once

#include <string>
#include <vector>

namespace shakedown {

/// Shows the hosts on the terminal until q or Ctrl-C; with --once or without a terminal, prints them once. With --json,
/// prints documents (base/host_activity.hpp). Returns 0, and with --once 3 if a host has not answered. Errors:
/// InputError.
int top(const std::vector<std::string>& words);

}  // namespace shakedown
