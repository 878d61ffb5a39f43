// Checks of a product on the GPU in f64, by other code than the one that made it: some rows element by element, and all
// elements by signed sums. Independent of cuBLASLt.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>

#include "kernels/cuda/gpu.hpp"
#include "kernels/ops/operation.hpp"

namespace shakedown::cuda {

/// C (m x n) = A (m x k) B (k x n) in device memory. B and C are column-major, A is row-major if `a_by_rows`.
/// The unit roundoffs are those of the stored result and of the accumulation; both 0: the product is exact.
struct Product {
  DType dtype;  // of A and B; C is what product_size_of says
  bool a_by_rows;
  const void* a;
  const void* b;
  const void* c;
  int m, n, k;
  double u_out, u_acc;
};

// Sampled rows -------------------------------------------------------------------------------------------------------

struct SampledRows {
  static constexpr int most = 8;
  int count;
  int index[most];
};

/// Rows spread over the whole matrix, all different.
SampledRows sample_rows(int m);

/// Recomputes every element of the rows and holds it to reference::gemm_tolerance. Index of element (i, j): i * n + j.
/// The values at index `report` go into the tally.
void count_wrong_elements(cudaStream_t, const Product&, const SampledRows&, double* scratch, Tally*,
                          unsigned long long report = no_index);

// All elements -------------------------------------------------------------------------------------------------------

/// Freivalds, "Probabilistic machines can use less running time", 1977, in blocks: for each row i and each block q of
/// `sum_width` columns, sum over j in q of s_j C_ij must be A_i (sum over j in q of s_j B_j), with random signs s_j.
/// Narrow blocks see a single wrong element over the rounding of its neighbours, and cost 2 m n k / sum_width flops.
inline constexpr int sum_width = 32;
constexpr int sums_per_row(int n) { return (n + sum_width - 1) / sum_width; }

/// The bound of such a sum in standard deviations of an element: an error of one element that is larger is found, less
/// the rounding of its neighbours; a smaller one is seen by its bits alone. The elements of A and B are standard
/// normal, so that |c_ij| is about sqrt(k), |a_i| sqrt(k) and |B_q| sqrt(sum_width k).
inline double least_error_found(double u_out, double u_acc, int k) {
  return 8 * std::sqrt(sum_width) * (u_out + u_acc * std::sqrt(k));
}

/// Index of a sum: i * sums_per_row(n) + q.
void count_wrong_sums_of(cudaStream_t, const Product&, double* scratch, Tally*, unsigned long long report = no_index);

/// Number of doubles in `scratch` that suffices for both checks.
constexpr std::size_t check_scratch(int n, int k) {
  const auto sums = static_cast<std::size_t>(sums_per_row(n)) * (static_cast<std::size_t>(k) + 1);
  const auto rows = static_cast<std::size_t>(SampledRows::most) * static_cast<std::size_t>(k);
  return sums > rows ? sums : rows;
}

}  // namespace shakedown::cuda
