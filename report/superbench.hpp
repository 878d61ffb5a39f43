// Figures in the form of SuperBench's results-summary.jsonl, for its summary, diagnosis and baselines.
#pragma once

#include <string>

#include "report/judged.hpp"

namespace shakedown {

/// One line of JSON for each node: {"node": "node7", "gemm/dtype-bf16/.../tflops:3": 811.9, ...}, the GPU of the node
/// behind the colon; figures that all ranks share stand without one. Without what was waived or failed. A ':' of a key
/// is '-', since SuperBench takes a colon for the GPU. Empty without results.
std::string superbench_jsonl(const Judged&);

}  // namespace shakedown
