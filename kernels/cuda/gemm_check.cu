// The two checks of a product, in f64. The inputs are exact in f64. Products of two elements are exact as well in every
// type except f64, so the reference has no significant error. For f64, the reference has the same error as the product
// that it checks.
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gemm_check.hpp"
#include "kernels/cuda/handle.hpp"
#include "kernels/cuda/known_data.cuh"
#include "kernels/reference.hpp"

namespace shakedown::cuda {

namespace {

constexpr std::uint64_t sign_stream = 3;  // A and B are drawn from streams 1 and 2

/// Maps an input type to the type of the stored product.
template <class In>
struct ProductOf {
  using Type = In;
};
template <>
struct ProductOf<Tf32> {
  using Type = float;
};
template <>
struct ProductOf<__nv_fp8_e4m3> {
  using Type = __nv_bfloat16;
};
template <>
struct ProductOf<Mxfp8> {
  using Type = __nv_bfloat16;
};
template <>
struct ProductOf<TwoE2m1> {
  using Type = __nv_bfloat16;
};
template <>
struct ProductOf<std::int8_t> {
  using Type = std::int32_t;
};

/// A product with typed matrices.
template <class T>
struct Matrices {
  using Out = typename ProductOf<T>::Type;
  const T* a;
  const T* b;
  const Out* c;
  int m, n, k;
  std::size_t a_row, a_column;  // distances between neighbouring rows and columns of A
  double u_out, u_acc;
  reference::FloatScales a_scales, b_scales;

  __device__ double a_at(int i, int l) const { return scaled(element(a, i * a_row + l * a_column), i, l, a_scales); }
  __device__ double b_at(int l, int j) const {
    return scaled(element(b, l + static_cast<std::size_t>(j) * k), j, l, b_scales);
  }
  __device__ double c_at(int i, int j) const { return element(c, i + static_cast<std::size_t>(j) * m); }

  /// Returns the value of an element at place l of a row of A or column of B.
  static __device__ double scaled(double element, int row, int l, const reference::FloatScales& scales) {
    if constexpr (std::is_same_v<T, __nv_fp8_e4m3>) {
      return element * scales.at(static_cast<unsigned>(row), static_cast<unsigned>(l));
    } else if constexpr (scale_block<T> == 0) {
      return element;
    } else {
      return element *
             reference::BlockScales::factor(static_cast<unsigned>(row), static_cast<unsigned>(l) / scale_block<T>);
    }
  }
};

template <class T>
Matrices<T> typed(const Product& p) {
  return {static_cast<const T*>(p.a),
          static_cast<const T*>(p.b),
          static_cast<const typename ProductOf<T>::Type*>(p.c),
          p.m,
          p.n,
          p.k,
          p.a_by_rows ? static_cast<std::size_t>(p.k) : 1,
          p.a_by_rows ? 1 : static_cast<std::size_t>(p.m),
          p.u_out,
          p.u_acc,
          p.a_scales,
          p.b_scales};
}

/// Same formula as reference::gemm_tolerance.
__device__ double tolerance(double u_out, double u_acc, double exact, double row_norm, double col_norm) {
  return u_out * fabs(exact) + 8.0 * u_acc * row_norm * col_norm;
}

/// True if the value is within the limit. NaN and infinity never agree, even if the limit is not finite.
__device__ bool agrees(double got, double want, double limit) { return isfinite(got) && fabs(got - want) <= limit; }

__device__ double sum_over_warp(double value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffU, value, step);
  return value;
}

__device__ void judge(LocalTally& mine, Tally* tally, double got, double want, double limit, unsigned long long index,
                      unsigned long long report) {
  mine.add(agrees(got, want, limit), index);
  const double error = fabs(got - want);
  if (limit > 0 && isfinite(error)) mine.worst = fmaxf(mine.worst, static_cast<float>(fmin(error / limit, 1e30)));
  if (index == report) {
    tally->got = got;
    tally->want = want;
  }
}

// Sampled rows -------------------------------------------------------------------------------------------------------

/// Copies the sampled rows of A: gathered[r * k + l] = A(row r of the sample, l).
template <class T>
__global__ void gather_rows_kernel(Matrices<T> p, SampledRows rows, double* gathered) {
  const int l = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const auto r = blockIdx.y;
  if (l < p.k) gathered[static_cast<std::size_t>(r) * p.k + l] = p.a_at(rows.index[r], l);
}

/// Each warp takes one column of B after another and multiplies it with all sampled rows.
template <class T>
__global__ void count_wrong_elements_kernel(Matrices<T> p, SampledRows rows, const double* gathered, Tally* tally,
                                            unsigned long long report) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warps = static_cast<int>(gridDim.x * blockDim.x / 32);
  LocalTally mine;
  for (int j = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / 32); j < p.n; j += warps) {
    double exact[SampledRows::max_rows] = {}, row_norm[SampledRows::max_rows] = {}, column_norm = 0;
    for (int l = lane; l < p.k; l += 32) {
      const double b = p.b_at(l, j);
      column_norm += b * b;
#pragma unroll
      for (int r = 0; r < SampledRows::max_rows; ++r) {
        const double a = r < rows.count ? gathered[static_cast<std::size_t>(r) * p.k + l] : 0.0;
        exact[r] += a * b;
        row_norm[r] += a * a;
      }
    }
    column_norm = sum_over_warp(column_norm);
#pragma unroll
    for (int r = 0; r < SampledRows::max_rows; ++r) {
      const double want = sum_over_warp(exact[r]);
      const double norm = sum_over_warp(row_norm[r]);
      if (lane != r || r >= rows.count) continue;
      const int i = rows.index[r];
      const double limit = tolerance(p.u_out, p.u_acc, want, sqrt(norm), sqrt(column_norm));
      judge(mine, tally, p.c_at(i, j), want, limit, static_cast<unsigned long long>(i) * p.n + j, report);
    }
  }
  mine.add_to(tally);
}

// All elements -------------------------------------------------------------------------------------------------------

__device__ double sign_of(int j) { return reference::sign(static_cast<std::uint64_t>(j), sign_stream); }

/// Computes sums[q * k + l], the sum of s_j B(l, j) over the columns j of block q, and square_norms[q], the sum of
/// their squares.
template <class T>
__global__ void sign_columns_kernel(Matrices<T> p, double* sums, double* square_norms) {
  const int l = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const auto q = static_cast<int>(blockIdx.y);
  double sum = 0, squares = 0;
  if (l < p.k) {
    for (int j = q * sum_width; j < min((q + 1) * sum_width, p.n); ++j) {
      const double b = p.b_at(l, j);
      sum += sign_of(j) * b;
      squares += b * b;
    }
    sums[static_cast<std::size_t>(q) * p.k + l] = sum;
  }
  squares = sum_over_warp(squares);
  if (threadIdx.x % 32 == 0) atomicAdd(square_norms + q, squares);
}

constexpr int tile_rows = 64, tile_sums = 32, tile_depth = 16, tile_threads = 256;
constexpr int rows_each = 4, sums_each = 2;  // the rows and sums that one thread processes
static_assert(tile_threads * rows_each * sums_each == tile_rows * tile_sums);

/// Loads a tile of A and one of the sums into shared memory; elements outside of the matrices are zero.
template <class T>
__device__ void load_tiles(const Matrices<T>& p, const double* sums, int i0, int q0, int l0,
                           double (&a)[tile_depth][tile_rows + 1], double (&y)[tile_depth][tile_sums + 1]) {
  const int blocks = sums_per_row(p.n);
  for (int e = static_cast<int>(threadIdx.x); e < tile_rows * tile_depth; e += tile_threads) {
    const bool along_k = p.a_column == 1;  // consecutive threads read consecutive addresses
    const int l = along_k ? e % tile_depth : e / tile_rows;
    const int i = along_k ? e / tile_depth : e % tile_rows;
    a[l][i] = i0 + i < p.m && l0 + l < p.k ? p.a_at(i0 + i, l0 + l) : 0.0;
  }
  for (int e = static_cast<int>(threadIdx.x); e < tile_sums * tile_depth; e += tile_threads) {
    const int l = e % tile_depth, q = e / tile_depth;
    y[l][q] = q0 + q < blocks && l0 + l < p.k ? sums[static_cast<std::size_t>(q0 + q) * p.k + l0 + l] : 0.0;
  }
}

/// Compares one signed sum of C with its expected value. Bound: the signs do not depend on the errors e_j. Therefore
/// |sum s_j e_j| <= 8 |e| except with probability 2 exp(-32) (Hoeffding). |e| is at most u_out |c| from rounding the
/// result plus u_acc |a_i| |B_q| from the accumulation. The latter is the bound of reference::gemm_tolerance before its
/// own factor 8.
template <class T>
__device__ void judge_sum(const Matrices<T>& p, int i, int q, double want, double row_norm, double block_norm,
                          LocalTally& mine, Tally* tally, unsigned long long report) {
  double got = 0, squares = 0;
  for (int j = q * sum_width; j < min((q + 1) * sum_width, p.n); ++j) {
    const double c = p.c_at(i, j);
    got += sign_of(j) * c;
    squares += c * c;
  }
  const double limit = tolerance(8.0 * p.u_out, p.u_acc, sqrt(squares), row_norm, block_norm);
  judge(mine, tally, got, want, limit, static_cast<unsigned long long>(i) * sums_per_row(p.n) + q, report);
}

/// Returns values[at]. It compares the index with each place, so that the values remain in registers.
template <int count>
__device__ double value_at(const double (&values)[count], int at) {
  double value = values[0];
#pragma unroll
  for (int place = 1; place < count; ++place) value = place == at ? values[place] : value;
  return value;
}

/// Multiplies A with the signed sums of B, one tile of 64 rows and 32 sums per block, and compares the results.
template <class T>
__global__ void __launch_bounds__(tile_threads, 3)
    count_wrong_sums_kernel(Matrices<T> p, const double* sums, const double* square_norms, Tally* tally,
                            unsigned long long report) {
  __shared__ double a[tile_depth][tile_rows + 1], y[tile_depth][tile_sums + 1];
  const int i0 = static_cast<int>(blockIdx.x) * tile_rows, q0 = static_cast<int>(blockIdx.y) * tile_sums;
  const int row = static_cast<int>(threadIdx.x % 16), pair = static_cast<int>(threadIdx.x / 16) * sums_each;
  double want[rows_each * sums_each] = {}, norm[rows_each] = {};
  for (int l0 = 0; l0 < p.k; l0 += tile_depth) {
    load_tiles(p, sums, i0, q0, l0, a, y);
    __syncthreads();
#pragma unroll
    for (int l = 0; l < tile_depth; ++l) {
#pragma unroll
      for (int u = 0; u < rows_each; ++u) {
        const double value = a[l][row + 16 * u];
        norm[u] += value * value;
#pragma unroll
        for (int v = 0; v < sums_each; ++v) want[u * sums_each + v] += value * y[l][pair + v];
      }
    }
    __syncthreads();
  }
  // One copy of judge_sum: a copy for each sum would take a third of this file's compile time.
  LocalTally mine;
#pragma unroll 1
  for (int at = 0; at < rows_each * sums_each; ++at) {
    const int u = at / sums_each, i = i0 + row + 16 * u, q = q0 + pair + at % sums_each;
    if (i >= p.m || q >= sums_per_row(p.n)) continue;
    judge_sum(p, i, q, value_at(want, at), sqrt(value_at(norm, u)), sqrt(square_norms[q]), mine, tally, report);
  }
  mine.add_to(tally);
}

unsigned blocks(int count, int each) { return static_cast<unsigned>((count + each - 1) / each); }

template <class T>
void count_wrong_elements_typed(cudaStream_t stream, const Matrices<T>& p, const SampledRows& rows, double* scratch,
                                Tally* tally, unsigned long long report) {
  const dim3 grid(blocks(p.k, 256), static_cast<unsigned>(rows.count));
  gather_rows_kernel<<<grid, 256, 0, stream>>>(p, rows, scratch);
  check(cudaGetLastError());
  count_wrong_elements_kernel<<<blocks(p.n, 8), 256, 0, stream>>>(p, rows, scratch, tally, report);
  check(cudaGetLastError());
}

template <class T>
void count_wrong_sums_typed(cudaStream_t stream, const Matrices<T>& p, double* scratch, Tally* tally,
                            unsigned long long report) {
  const int per_row = sums_per_row(p.n);
  double* const square_norms = scratch + static_cast<std::size_t>(per_row) * p.k;
  check(cudaMemsetAsync(square_norms, 0, sizeof(double) * static_cast<std::size_t>(per_row), stream));
  sign_columns_kernel<<<dim3(blocks(p.k, 256), static_cast<unsigned>(per_row)), 256, 0, stream>>>(p, scratch,
                                                                                                  square_norms);
  check(cudaGetLastError());
  const dim3 grid(blocks(p.m, tile_rows), blocks(per_row, tile_sums));
  count_wrong_sums_kernel<<<grid, tile_threads, 0, stream>>>(p, scratch, square_norms, tally, report);
  check(cudaGetLastError());
}

}  // namespace

SampledRows sample_rows(int m) {
  SampledRows rows{m < SampledRows::max_rows ? m : SampledRows::max_rows, {}};
  for (int r = 0; r < rows.count; ++r) {
    const auto begin = static_cast<std::uint64_t>(m) * r / rows.count;
    const auto end = static_cast<std::uint64_t>(m) * (r + 1) / rows.count;
    rows.index[r] = static_cast<int>(begin + reference::mix(r) % (end - begin));
  }
  return rows;
}

void count_wrong_elements(cudaStream_t stream, const Product& product, const SampledRows& rows, double* scratch,
                          Tally* tally, unsigned long long report) {
  with_element(product.dtype, [&](auto zero) {
    count_wrong_elements_typed(stream, typed<decltype(zero)>(product), rows, scratch, tally, report);
  });
}

void count_wrong_sums_of(cudaStream_t stream, const Product& product, double* scratch, Tally* tally,
                         unsigned long long report) {
  with_element(product.dtype, [&](auto zero) {
    count_wrong_sums_typed(stream, typed<decltype(zero)>(product), scratch, tally, report);
  });
}

}  // namespace shakedown::cuda
