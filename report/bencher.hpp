// Results in Bencher's metric format (adapter `json`). Google Benchmark's own files give a skipped benchmark a time of
// 0, which Bencher and Conbench would store as the best result ever.
#pragma once

#include <string>

#include "report/judged.hpp"

namespace shakedown {

/// Returns {"gemm/...": {"tflops": {"value": 811.9, "lower_value": 811.9, "upper_value": 830.1}}}: the value of the
/// run, and the lowest and highest value of its ranks. Omits waived and failed benchmarks. Returns an empty object if
/// there are no results.
std::string bencher_json(const Judged&);

}  // namespace shakedown
