// The ways to run one GEMM: A by columns or by rows, each with the algorithms that the heuristic proposes for it.
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

/// One way to run the GEMM. It is plain data, as cuBLASLt documents for its algorithms, so another process can use it.
struct GemmCandidate {
  std::uint32_t layout;  // see GemmPlan::a_by_rows
  std::uint32_t rank;    // its position among the heuristic's proposals for this layout; 0 is the favourite
  MatmulAlgorithm algorithm;

  /// Rank that stands for cublasDgemm, which selects its own algorithm and does not report it.
  static constexpr std::uint32_t dgemm = 99;
};

/// Convert a candidate to text, for Device::choices, and back. The way back returns nullopt for text that to_text did
/// not write.
std::string to_text(const GemmCandidate&);
std::optional<GemmCandidate> candidate_from(const std::string& text);

class GemmPlan {
 public:
  static constexpr std::size_t workspace_bytes = std::size_t{64} << 20;

  /// `scales` holds scale_bytes() of scale factors (fill_scales) and outlives the plan; null for types without scale
  /// factors. Errors: Unsupported if cuBLASLt has no algorithm for the type or the shape.
  GemmPlan(const GemmSpec&, const GemmType&, const void* scales);

  /// Returns the bytes of the scale factors of fp8, or of one byte for the larger of A and B; 0 if there are none.
  static std::size_t scale_bytes(const GemmSpec&, const GemmType&);

  /// True if the candidate stores A row by row (cuBLASLt's op T); otherwise all matrices are column-major. By rows,
  /// both A and B are contiguous along k, as in the linear layers of a model.
  bool a_by_rows(const GemmCandidate& candidate) const { return layouts_[candidate.layout].a_by_rows; }

  /// Returns the heuristic's proposals for both layouts in turn, the likelier layout first; there is at least one. For
  /// f64, cublasDgemm in both layouts follows the favourite.
  const std::vector<GemmCandidate>& candidates() const { return candidates_; }

  /// Queues C = A B. The candidate may be another rank's choice. A status other than success means that it does not run
  /// on this GPU, or not within the workspace.
  cublasStatus_t enqueue(const GemmCandidate&, const GemmOperands&, cudaStream_t) const;

  /// True if cuBLASLt can run the candidate here for this product. It is needed for candidates from another rank or
  /// run.
  bool runs(const GemmCandidate&) const;

  /// Returns numbers of the algorithm in cuBLASLt's tables: its id and its tile.
  static Metrics describe(const GemmCandidate&);

  /// Returns how the candidate divides C; nullopt if cuBLASLt does not report it.
  std::optional<ProductTiling> tiling(const GemmCandidate&, int multiprocessors) const;

 private:
  struct Layout {
    bool a_by_rows;
    MatmulShape shape;
    Matmul product;
  };

  cublasStatus_t enqueue_dgemm(bool a_by_rows, const GemmOperands&, cudaStream_t) const;

  GemmSpec spec_;
  BlasHandle blas_;
  CublasHandle dgemm_;  // used only for f64
  std::vector<Layout> layouts_;
  std::vector<GemmCandidate> candidates_;
};

}  // namespace shakedown::cuda
