// The verb regress: compares results with a baseline, or with a store of earlier runs that grows.
#pragma once

#include "report/arguments.hpp"

namespace shakedown {

/// Prints the comparison, writes the outputs, and returns the exit code. With --store the run is added to the baseline
/// of its kind of machine if its own verdict is good and nothing is worse. Errors: InputError, as of judge_regression
/// and read_baseline.
int regress(const Arguments&);

}  // namespace shakedown
