// Which exit code an exception means: one table, which every program uses.
#pragma once

#include <exception>
#include <string>

namespace shakedown {

/// Exit codes that all programs share: wrong usage or input that is not readable; the program's own trouble, which says
/// nothing about the machine.
inline constexpr int exit_usage = 2, exit_incomplete = 3;

struct Failure {
  int code = exit_incomplete;
  std::string text;  // one line for people: what failed, with the path and errno's word
};

/// Returns what ended a program. InputError alone means exit_usage: memory, descriptors, processes, disks and whatever
/// else fails are no fault of the user or the machine.
Failure failure_of(const std::exception&);

/// From now on std::terminate, which follows where no memory is left to throw or to catch, ends this process with
/// exit_incomplete and one line on standard error. `with_verdict`: standard output then ends with a verdict line.
void end_incomplete_on_terminate(bool with_verdict);

}  // namespace shakedown
