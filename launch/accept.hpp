// The verbs that measure. Each verb is a function that returns the exit code of the program.
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
/// Runs the program `inventory` in place of this one; returns only if it cannot be run. Errors: CannotRun.
int inventory(const std::vector<std::string>& words);
/// Runs a user's program on all ranks in the same way as the benchmark programs. Returns its exit code.
int launch(const std::vector<std::string>& words);
/// Runs one step of a run as one test of CTest: ctest FOLDER begin|all|gate|FAMILY. Each step is a process of its own.
int ctest_step(const std::vector<std::string>& words);

}  // namespace shakedown
