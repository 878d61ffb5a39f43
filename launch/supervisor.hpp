// The process between the front door and a launcher: whatever ends the front door, SIGKILL too, it ends the launcher
// and everything that the launcher started on this host.
#pragma once

#include <string>
#include <vector>

namespace shakedown {

/// `shakedown supervisor FD COMMAND...`, started by launch/job.cpp. FD is a socket to the front door: a byte from
/// there, or its end, means "end the job"; one line goes there when the command has ended: "exit 3", "signal 9", or
/// "error TEXT" where it could not be started. Returns when nothing of the job is left, or cannot be ended.
int supervise(const std::vector<std::string>& words);

}  // namespace shakedown
