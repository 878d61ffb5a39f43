// Results in the format of SuperBench's results-summary.jsonl, which SuperBench summarizes, diagnoses and compares with
// baselines.
#pragma once

#include <string>

#include "report/judged.hpp"

namespace shakedown {

/// Returns one line of JSON for each node: {"node": "node7", "gemm/dtype-bf16/.../tflops:3": 811.9, ...}. The number
/// after the colon is the index of the GPU in the node; a value that all ranks share has none. Other colons of a key
/// become '-'. Omits waived and failed benchmarks. Empty if there are no results.
std::string superbench_jsonl(const Judged&);

}  // namespace shakedown
