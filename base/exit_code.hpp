// Maps exceptions to exit codes. All programs use this one table.
#pragma once

#include <exception>
#include <string>

namespace shakedown {

/// Exit codes of all programs. exit_usage: the usage is wrong or the input is unreadable. exit_incomplete: the program
/// itself failed, so there is no result about the machine.
inline constexpr int exit_usage = 2, exit_incomplete = 3;

struct Failure {
  int code = exit_incomplete;
  std::string text;  // one line for the user: what failed, with the path and the errno message
};

/// Returns the exit code and the message for an exception. Only InputError becomes exit_usage, because the user and the
/// machine under test do not cause failures of memory, descriptors, processes or disks.
Failure failure_of(const std::exception&);

/// Makes std::terminate end this process with exit_incomplete and one line on standard error. The runtime calls
/// std::terminate if there is no memory left to throw or catch. `with_verdict` also prints a verdict line on standard
/// output.
void end_incomplete_on_terminate(bool with_verdict);

}  // namespace shakedown
