// How cuBLASLt is asked for one product: descriptors, layouts, and the algorithms that its heuristic proposes.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/cuda/handle.hpp"
#include "kernels/device.hpp"

namespace shakedown::cuda {

/// All matrices are column-major. With `a_by_rows` A is stored row after row (cuBLASLt's op T): then both A and B are
/// contiguous along k, as in the linear layers of a model.
struct GemmOperands {
  const void* a;
  const void* b;
  void* c;
  void* workspace;
};

class GemmPlan {
 public:
  static constexpr std::size_t workspace_bytes = std::size_t{64} << 20;

  /// Errors: Unsupported for a type or a shape that cuBLASLt has no algorithm for.
  explicit GemmPlan(const GemmSpec&);

  bool a_by_rows() const { return a_by_rows_; }

  /// The heuristic's proposals, its favourite first; at least one.
  const std::vector<cublasLtMatmulAlgo_t>& candidates() const { return candidates_; }

  /// Queues C = A B. The algorithm may be another rank's choice; a status other than success means that it does not run
  /// here, or not within the workspace.
  cublasStatus_t enqueue(const cublasLtMatmulAlgo_t&, const GemmOperands&, cudaStream_t) const;

 private:
  std::vector<cublasLtMatmulAlgo_t> propose() const;

  bool a_by_rows_;
  BlasHandle blas_;
  MatmulDesc product_;
  MatrixLayout a_, b_, c_;
  std::vector<cublasLtMatmulAlgo_t> candidates_;
};

}  // namespace shakedown::cuda
