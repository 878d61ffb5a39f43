// Results in the format of SuperBench's results-summary.jsonl, for its summary, diagnosis and baselines.
#pragma once

#include <string>

#include "report/judged.hpp"

namespace shakedown {

/// Returns one line of JSON for each node: {"node": "node7", "gemm/dtype-bf16/.../tflops:3": 811.9, ...}. The number
/// after the colon is the GPU in the node; values shared by all ranks have none. Other colons of a key become '-'.
/// Omits waived and failed benchmarks. Empty without results.
std::string superbench_jsonl(const Judged&);

}  // namespace shakedown
