// Compares measurements of the same run with each other. Needs no profile. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/findings/finding.hpp"
#include "thresholds/results/measured.hpp"

namespace shakedown {

/// An AllReduce of at least this many bytes is bound by bandwidth.
inline constexpr double bandwidth_bound_bytes = 1e9;

/// Inside one host, the bus bandwidth of a large AllReduce is at least this share of the peer copy rate: four H200
/// reach 0.92 without NVLS, two 0.87 (ci/baselines, 2026-11); with NVLS it is above 1.
inline constexpr double allreduce_of_copy = 0.75;

/// Below this rate GPUs are not connected by NVLink, and a ring shares bridges that single copies do not share: a
/// warning.
inline constexpr double nvlink_class_gb_per_s = 100;

/// The predicted time of a LoRA step is its model FLOPs at this share of the rate of the largest bf16 GEMM, plus the
/// AllReduce of its gradients. 0.65 is the share of torch.compile on one H200 (438 of 665 TFLOPS).
inline constexpr double step_of_gemm = 0.65;
/// The relative excess over the predicted time above which a step is a finding.
inline constexpr double step_tolerance = 0.3;
/// No step computes faster than the fastest product of the run: four H200 reach 0.70 of it.
inline constexpr double above_gemm = 1.02;

struct CrossChecks {
  std::vector<Finding> findings;  // includes passed ones
  std::string summary() const;    // "AllReduce 0.92 of the peer copies"
};

/// Compares AllReduce with peer copies, and the LoRA step with GEMM and AllReduce, as far as they were measured. Only
/// benchmarks of `families` have findings.
CrossChecks cross_check(const Benchmarks&, const FamilySet& families);

}  // namespace shakedown
