// The only user of cuBLASLt: describes a product, gets the algorithms that the heuristic proposes, and runs one of
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

/// A matrix in memory whose columns are `stride` elements apart.
struct MatmulMatrix {
  cudaDataType_t type;
  std::uint64_t rows, cols, stride;

  auto operator<=>(const MatmulMatrix&) const = default;
};

/// What a scale factor of a matrix belongs to: 16 or 32 neighbours along k (a factor of one byte), a whole row of A or
/// column of B, 128 neighbours along k, or a block of 128 x 128 elements (f32). The numbers are those of
/// cublasLtMatmulMatrixScale_t; the header of CUDA 12.8 lacks the last three.
enum class ScaleMode : std::int32_t { none = 0, of_16 = 1, of_32 = 2, row = 3, of_128 = 4, block128 = 5 };

/// The properties that define a product for cuBLASLt: D = alpha op(A) op(B) + beta C, where C has the layout of D.
struct MatmulShape {
  cublasComputeType_t compute;
  cudaDataType_t scale;  // the type of alpha and beta
  MatmulMatrix a, b, d;
  bool a_transposed, b_transposed;
  std::size_t workspace_bytes;
  bool adds = false;                                     // true if beta is not 0
  bool bias = false;                                     // a bias in bf16, one for each row of D
  std::optional<bool> fast_accumulation = std::nullopt;  // set only for fp8
  ScaleMode a_scale = ScaleMode::none, b_scale = ScaleMode::none;
  const void *a_scales = nullptr, *b_scales = nullptr;
  /// The alignment of A, B, C and D in bytes; cuBLASLt's default is 256.
  std::optional<std::array<std::uint32_t, 4>> alignment{};
  bool gelu = false;  // D is the GELU (by tanh) of the sum

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

/// Returns a number of the algorithm in cuBLASLt's tables, such as its tile (cublasLtMatmulTile_t); nullopt if cuBLASLt
/// does not tell it.
std::optional<std::uint32_t> find_setting(const MatmulAlgorithm&, cublasLtMatmulAlgoConfigAttributes_t);

class Matmul {
 public:
  /// The handle must outlive the product.
  Matmul(cublasLtHandle_t, const MatmulShape&);

  /// Returns the heuristic's proposals, most likely first. `status` is the status of the query and explains an empty
  /// result.
  std::vector<MatmulAlgorithm> propose(int most, cublasStatus_t& status) const;

  /// Returns the algorithm with the sum along k split into `parts` parts, which are added in a fixed order; nullopt if
  /// the algorithm does not have this setting or cannot run with it.
  std::optional<MatmulAlgorithm> split(MatmulAlgorithm, std::uint32_t parts) const;

  /// True if cuBLASLt can run the algorithm here in the given workspace.
  bool runs(const MatmulAlgorithm&) const;

  /// Queues the product. The algorithm may be another rank's choice. A status other than success means that it does not
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
