// Throughputs in the format of benchmark-action/github-action-benchmark, tool customBiggerIsBetter.
#pragma once

#include <string>

#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns [{"name", "unit", "value", "extra"}], with one entry for each benchmark and metric. Includes only measured
/// throughputs. Omits failed and waived benchmarks, because the action would store their 0 as a measured value.
std::string github_benchmark_json(const Verdict&);

}  // namespace shakedown
