// A comparison with a baseline as JSON.
#pragma once

#include <string>

#include "thresholds/history/regression.hpp"

namespace shakedown {

/// Returns strict JSON (report/regression.schema.json). Each change has the values of its launches, so that they can be
/// plotted.
std::string regression_json(const Regression&);

}  // namespace shakedown
