// A comparison with a baseline for programs.
#pragma once

#include <string>

#include "thresholds/history/regression.hpp"

namespace shakedown {

/// Strict JSON (report/regression.schema.json). Each change has its launches, so that a course can be drawn.
std::string regression_json(const Regression&);

}  // namespace shakedown
