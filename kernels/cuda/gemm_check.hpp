// Checks of a product on the GPU in f64: some rows element by element, and all elements by signed sums. The code is
// independent of cuBLASLt and of the code that computed the product.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>

#include "kernels/cuda/gpu.hpp"
#include "kernels/ops/operation.hpp"
#include "kernels/reference.hpp"

namespace shakedown::cuda {

/// C (m x n) = A (m x k) B (k x n) in device memory. B and C are column-major; A is row-major if `a_by_rows`. u_out and
/// u_acc are the unit roundoffs of the stored result and of the accumulation; if both are 0, the product is exact.
struct Product {
  DType dtype;  // the type of A and B; product_size_of gives the type of C
  bool a_by_rows;
  const void* a;
  const void* b;
  const void* c;
  int m, n, k;
  double u_out, u_acc;
  reference::FloatScales a_scales{}, b_scales{};  // of fp8
};

// Sampled rows -------------------------------------------------------------------------------------------------------

struct SampledRows {
  static constexpr int max_rows = 8;
  int count;
  int index[max_rows];
};

/// Returns distinct rows, spread over the whole matrix.
SampledRows sample_rows(int m);

/// Recomputes every element of the rows and compares it within reference::gemm_tolerance. Element (i, j) has the index
/// i * n + j. The values at index `report` are stored in the tally.
void count_wrong_elements(cudaStream_t, const Product&, const SampledRows&, double* scratch, Tally*,
                          unsigned long long report = no_index);

// All elements -------------------------------------------------------------------------------------------------------

/// Width of a block of columns in Freivalds' check ("Probabilistic machines can use less running time", 1977). For each
/// row i and each block q of `sum_width` columns, the sum over j in q of s_j C_ij must equal A_i (sum over j in q of
/// s_j B_j), with random signs s_j. With narrow blocks a single wrong element exceeds the rounding errors of its
/// neighbours. The cost is 2 m n k / sum_width flops.
inline constexpr int sum_width = 32;
constexpr int sums_per_row(int n) { return (n + sum_width - 1) / sum_width; }

/// Returns the bound of such a sum in standard deviations of an element. A larger error of one element is found, up to
/// the rounding of its neighbours; a smaller error only changes the checksum. The elements of A and B are standard
/// normal, so |c_ij| is about sqrt(k), |a_i| about sqrt(k), and |B_q| about sqrt(sum_width k).
inline double least_error_found(double u_out, double u_acc, int k) {
  return 8 * std::sqrt(sum_width) * (u_out + u_acc * std::sqrt(k));
}

/// Checks all signed sums. Index of a sum: i * sums_per_row(n) + q.
void count_wrong_sums_of(cudaStream_t, const Product&, double* scratch, Tally*, unsigned long long report = no_index);

/// Returns the number of doubles that both checks need in `scratch`.
constexpr std::size_t check_scratch(int n, int k) {
  const auto sums = static_cast<std::size_t>(sums_per_row(n)) * (static_cast<std::size_t>(k) + 1);
  const auto rows = static_cast<std::size_t>(SampledRows::max_rows) * static_cast<std::size_t>(k);
  return sums > rows ? sums : rows;
}

}  // namespace shakedown::cuda
