// Compares measurements of the same run with each other. These checks need no profile. The functions are pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/findings/finding.hpp"
#include "thresholds/results/measured.hpp"

namespace shakedown {

/// An AllReduce of at least this number of bytes is limited by bandwidth.
inline constexpr double bandwidth_bound_bytes = 1e9;

/// Inside one host, the busbw of a large AllReduce must be at least this fraction of the rate of peer copies. Without
/// NVLS, four H200 reach 0.92 and two reach 0.87 (ci/baselines, 2026-11); with NVLS it is above 1.
inline constexpr double allreduce_of_copy = 0.75;

/// If copies are slower than this, the GPUs are not connected by NVLink. A ring then shares bridges that single copies
/// do not share, so a miss is only a warning.
inline constexpr double nvlink_class_gb_per_s = 100;

/// The predicted time of a LoRA step is the time of its model FLOPs at this fraction of the rate of the largest bf16
/// GEMM, plus the time of the AllReduce of its gradients. torch.compile reaches 0.65 on one H200 (438 of 665 TFLOPS).
inline constexpr double step_of_gemm = 0.65;
/// A step is a finding if it exceeds the predicted time by more than this fraction.
inline constexpr double step_tolerance = 0.3;
/// No step can compute faster than the fastest product of the run. Four H200 reach 0.70 of it.
inline constexpr double max_gemm_ratio = 1.02;

struct CrossChecks {
  std::vector<Finding> findings;  // includes findings that pass
  std::string summary() const;    // Returns a text such as "AllReduce 0.92 of the peer copies".
};

/// Compares AllReduce with peer copies, and the LoRA step with GEMM and AllReduce, if they were measured. Only
/// benchmarks of `families` get findings.
CrossChecks cross_check(const Benchmarks&, const FamilySet& families);

}  // namespace shakedown
