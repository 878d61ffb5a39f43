// The ways in which one GEMM can be run: A by columns or by rows, each with the algorithms that are proposed for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/gemm_type.hpp"
#include "kernels/cuda/matmul.hpp"
#include "kernels/device.hpp"
#include "kernels/ops/gemm.hpp"

namespace shakedown::cuda {

struct GemmOperands {
  const void* a;
  const void* b;
  void* c;
  void* workspace;
};

/// One way to multiply: plain data, as cuBLASLt says of its algorithms, which another process can use.
struct GemmCandidate {
  std::uint32_t layout;  // see GemmPlan::a_by_rows
  std::uint32_t rank;    // among the heuristic's proposals for this layout, its favourite 0
  MatmulAlgorithm algorithm;

  /// In place of a rank: cublasDgemm, which has ways of its own to choose, and no algorithm to tell.
  static constexpr std::uint32_t dgemm = 99;
};

/// As text, for Device::choices, and back. Nothing for a text that to_text has not written.
std::string to_text(const GemmCandidate&);
std::optional<GemmCandidate> candidate_from(const std::string& text);

class GemmPlan {
 public:
  static constexpr std::size_t workspace_bytes = std::size_t{64} << 20;

  /// `scales` holds scale_bytes() of unit scale factors and outlives the plan; null for types without.
  /// Errors: Unsupported for a type or a shape that cuBLASLt has no algorithm for.
  GemmPlan(const GemmSpec&, const GemmType&, const void* scales);

  /// Bytes of the scale factors of the larger of A and B; 0 for types without.
  static std::size_t scale_bytes(const GemmSpec&, const GemmType&);

  /// All matrices are column-major. Where this holds A is stored row after row (cuBLASLt's op T): then both A and B are
  /// contiguous along k, as in the linear layers of a model.
  bool a_by_rows(const GemmCandidate& candidate) const { return layouts_[candidate.layout].a_by_rows; }

  /// The heuristic's proposals for both layouts in turn, the likelier first, at least one; of f64 cublasDgemm of both
  /// behind the favourite.
  const std::vector<GemmCandidate>& candidates() const { return candidates_; }

  /// Queues C = A B. The candidate may be another rank's choice; a status other than success means that it does not run
  /// here, or not within the workspace.
  cublasStatus_t enqueue(const GemmCandidate&, const GemmOperands&, cudaStream_t) const;

  /// Whether cuBLASLt would run the candidate here, for this product. For candidates from elsewhere.
  bool runs(const GemmCandidate&) const;

  /// Numbers of the algorithm in cuBLASLt's tables: which one, and its tile.
  static Metrics describe(const GemmCandidate&);

 private:
  struct Layout {
    bool a_by_rows;
    Matmul product;
  };

  cublasStatus_t enqueue_dgemm(bool a_by_rows, const GemmOperands&, cudaStream_t) const;

  GemmSpec spec_;
  BlasHandle blas_;
  CublasHandle dgemm_;  // of f64
  std::vector<Layout> layouts_;
  std::vector<GemmCandidate> candidates_;
};

}  // namespace shakedown::cuda
