// A process between `shakedown` and a launcher. If `shakedown` ends for any reason, including SIGKILL, the supervisor
// ends the launcher and all processes that the launcher started on this host.
#pragma once

#include <string>
#include <vector>

namespace shakedown {

/// Implements `shakedown supervisor FD COMMAND...`, which launch/job.cpp starts. FD is a socket to `shakedown`. A byte
/// from the socket, or its end, means "end the job". When the command has ended, the supervisor writes one line: "exit
/// 3", "signal 9", or "error TEXT" if the command could not be started. Returns when all processes of the job have
/// ended, or the remaining processes cannot be killed.
int supervise(const std::vector<std::string>& words);

}  // namespace shakedown
