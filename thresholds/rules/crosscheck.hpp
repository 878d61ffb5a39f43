// The judgement by other measurements of the same run: what one of them predicts for another. Needs no profile. Pure.
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

/// Inside one host, the bus bandwidth of a large AllReduce is at least this part of what a GPU copies to a peer: four
/// H200 reach 0.92 without NVLS, two 0.87 (ci/baselines, 2026-11); with NVLS it is above 1.
inline constexpr double allreduce_of_copy = 0.75;

/// Below this rate the peers are not joined by NVLink, and a ring shares bridges that single copies do not: a warning.
inline constexpr double nvlink_class_gb_per_s = 100;

/// A LoRA step is predicted as its model FLOPs at this part of the rate of the largest bf16 GEMM, plus the AllReduce of
/// its gradients, not overlapped. 0.65 is what torch.compile reaches on one H200 (438 of 665 TFLOPS).
inline constexpr double step_of_gemm = 0.65;
/// A step that takes longer than predicted by more than this part is a finding.
inline constexpr double step_tolerance = 0.3;
/// No step computes faster than the run's fastest product: four H200 reach 0.70 of it.
inline constexpr double above_gemm = 1.02;

struct CrossChecks {
  std::vector<Finding> findings;  // passed ones too
  std::string summary() const;    // "AllReduce 0.92 of the peer copies"
};

/// AllReduce against peer copies, and GEMM with AllReduce against the LoRA step, as far as they were measured.
/// `families`: only findings about their benchmarks.
CrossChecks cross_check(const Benchmarks&, const FamilySet& families);

}  // namespace shakedown
