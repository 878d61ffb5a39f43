// The process between the front door and a launcher. If the front door ends for any reason, including SIGKILL, the
// supervisor ends the launcher and all processes that it started on this host.
#pragma once

#include <string>
#include <vector>

namespace shakedown {

/// Implements `shakedown supervisor FD COMMAND...`, started by launch/job.cpp. FD is a socket to the front door. A byte
/// from it, or its end, means "end the job". When the command has ended, the supervisor writes one line: "exit 3",
/// "signal 9", or "error TEXT" if the command could not be started. Returns when no process of the job is left, or the
/// rest cannot be killed.
int supervise(const std::vector<std::string>& words);

}  // namespace shakedown
