// The verb regress: compares results with a baseline, or with a growing store of earlier runs.
#pragma once

#include "report/arguments.hpp"

namespace shakedown {

/// Prints the comparison, writes the outputs, and returns the exit code. With --store, adds the run to the baseline of
/// its kind of machine if its verdict is good and no figure is worse. Errors: InputError, as for judge_regression and
/// read_baseline.
int regress(const Arguments&);

}  // namespace shakedown
