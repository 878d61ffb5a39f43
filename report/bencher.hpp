// Figures in Bencher's metric format (adapter `json`). Google Benchmark's own files have a time of 0 for what was
// waived, which Bencher and Conbench would store as the best ever.
#pragma once

#include <string>

#include "report/judged.hpp"

namespace shakedown {

/// {"gemm/...": {"tflops": {"value": 811.9, "lower_value": 811.9, "upper_value": 830.1}}}: the value of the run, the
/// lowest and the highest of its ranks. Without what was waived or failed. An empty object without results.
std::string bencher_json(const Judged&);

}  // namespace shakedown
