// The one use of cuBLASLt: how it is asked for one product, which algorithms its heuristic proposes, and running one of
// them. All matrices are column-major.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/cuda/handle.hpp"

namespace shakedown::cuda {

/// A matrix in memory, its columns `stride` elements apart.
struct MatmulMatrix {
  cudaDataType_t type;
  std::uint64_t rows, cols, stride;

  auto operator<=>(const MatmulMatrix&) const = default;
};

/// What makes two products the same to cuBLASLt: D = alpha op(A) op(B) + beta C, where C lies as D does.
struct MatmulShape {
  cublasComputeType_t compute;
  cudaDataType_t scale;  // of alpha and beta
  MatmulMatrix a, b, d;
  bool a_transposed, b_transposed;
  std::size_t workspace_bytes;
  bool adds = false;                                        // beta is not 0
  bool bias = false;                                        // bf16, one for each row of D
  std::optional<bool> fast_accumulation = std::nullopt;     // of fp8
  int block = 0;                                            // so many neighbours along k share a scale factor
  const void* scales = nullptr;                             // of A and of B
  std::optional<std::array<std::uint32_t, 4>> alignment{};  // of A, B, C and D, in bytes; cuBLASLt's default is 256

  auto operator<=>(const MatmulShape&) const = default;
};

struct MatmulOperands {
  const void *a, *b, *c;
  void *d, *workspace;
  const void* bias = nullptr;
  double alpha = 1, beta = 0;
};

using MatmulAlgorithm = cublasLtMatmulAlgo_t;

BlasHandle make_blas();

/// A number of the algorithm in cuBLASLt's tables, for example its tile (cublasLtMatmulTile_t).
std::uint32_t setting(const MatmulAlgorithm&, cublasLtMatmulAlgoConfigAttributes_t);

class Matmul {
 public:
  /// The handle outlives the product.
  Matmul(cublasLtHandle_t, const MatmulShape&);

  /// The heuristic's proposals, the likelier first; `status` is its answer, and a reason for none.
  std::vector<MatmulAlgorithm> propose(int most, cublasStatus_t& status) const;

  /// The algorithm with the sum along k cut into so many parts, added in a fixed order; nothing if it has not this
  /// setting, or does not run with it.
  std::optional<MatmulAlgorithm> split(MatmulAlgorithm, std::uint32_t parts) const;

  /// Whether cuBLASLt would run it here, in the workspace that there is.
  bool runs(const MatmulAlgorithm&) const;

  /// Queues the product. The algorithm may be another rank's choice; a status other than success means that it does not
  /// run here.
  cublasStatus_t enqueue(const MatmulAlgorithm&, const MatmulOperands&, cudaStream_t) const;

 private:
  cublasLtHandle_t blas_;
  cudaDataType_t scale_;
  std::size_t workspace_bytes_;
  MatmulDesc product_;
  MatrixLayout a_, b_, d_;
  MatmulPreference preference_;
};

}  // namespace shakedown::cuda
