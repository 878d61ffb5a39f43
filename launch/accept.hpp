// The verbs that measure. Each returns the exit code of the program.
#pragma once

#include <string>
#include <vector>

#include "report/reason.hpp"

namespace shakedown {

/// From whatever this machine is to a verdict. Errors: CannotRun, InputError.
int accept(const std::vector<std::string>& words, const ReasonChannel&);
/// The same without judging. Prints the folder.
int measure(const std::vector<std::string>& words);
/// Prints the identity of this host as one line of JSON.
int discover(const std::vector<std::string>& words);
/// Runs the program `inventory`; returns only if it cannot be run. Errors: CannotRun.
int inventory(const std::vector<std::string>& words);
/// A program on all ranks, as it would be measured; its exit code is handed on.
int launch(const std::vector<std::string>& words);
/// A step of a run that CTest makes, in its own process: ctest FOLDER begin|all|gate|FAMILY.
int ctest_step(const std::vector<std::string>& words);

}  // namespace shakedown
