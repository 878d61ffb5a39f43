// Throughput for benchmark-action/github-action-benchmark, tool customBiggerIsBetter.
#pragma once

#include <string>

#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// [{"name", "unit", "value", "extra"}], one entry per benchmark and metric: measured throughputs only. A benchmark
/// that failed or was waived is left out: as 0 it would be remembered as a value.
std::string github_benchmark_json(const Verdict&);

}  // namespace shakedown
