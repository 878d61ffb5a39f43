// The verbs that measure. Each returns the exit code of the program.
#pragma once

#include <string>
#include <vector>

#include "report/reason.hpp"

namespace shakedown {

/// Discovers the hosts, measures, judges and prints the verdict. Errors: CannotRun, InputError.
int accept(const std::vector<std::string>& words, const ReasonChannel&);
/// Measures without judging. Prints the folder of the run.
int measure(const std::vector<std::string>& words);
/// Prints the identity of this host as one line of JSON.
int discover(const std::vector<std::string>& words);
/// Runs the program `inventory`; returns only if it cannot be run. Errors: CannotRun.
int inventory(const std::vector<std::string>& words);
/// Runs a program on all ranks, as a benchmark program would run. Returns its exit code.
int launch(const std::vector<std::string>& words);
/// Runs one step of a run for CTest, in a process of its own: ctest FOLDER begin|all|gate|FAMILY.
int ctest_step(const std::vector<std::string>& words);

}  // namespace shakedown
