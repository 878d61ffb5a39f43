// Sums over the rows of a matrix: the gradients of biases, of the gains and shifts of norms, and of positions. Each
// block sums some rows of some columns; the sums of the blocks are then added in a fixed order.
#include <algorithm>

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/handle.hpp"
#include "kernels/transformer/cuda/kernels.hpp"
#include "kernels/transformer/cuda/vector.cuh"

namespace shakedown::cuda {

namespace {

constexpr std::size_t least_rows = 8;  // the number of rows in a part
constexpr int column_threads = 128;    // a thread processes eight columns

/// Part p of `rows_of_part` rows writes its sums to sums[p columns + c]; with `scaled`, also those of dy (x - mean)
/// rstd to scaled_sums.
template <bool scaled>
__global__ void __launch_bounds__(column_threads)
    parts_kernel(Rows<const Bf16> dy, Rows<const Bf16> x, NormStatistics statistics, std::size_t rows,
                 std::size_t columns, std::size_t rows_of_part, float* sums, float* scaled_sums) {
  const auto c = (static_cast<std::size_t>(blockIdx.x) * column_threads + threadIdx.x) * vector_width;
  if (c >= columns) return;
  const auto begin = blockIdx.y * rows_of_part, end = min(begin + rows_of_part, rows);
  Eight sum{}, scaled_sum{};
#pragma unroll 4
  for (auto r = begin; r < end; ++r) {
    const auto gradient = load(dy.at(r) + c);
#pragma unroll
    for (int i = 0; i < vector_width; ++i) sum.at[i] += gradient.at[i];
    if constexpr (scaled) {
      const auto values = load(x.at(r) + c);
      const float mean = statistics.mean == nullptr ? 0.0F : statistics.mean[r], rstd = statistics.rstd[r];
#pragma unroll
      for (int i = 0; i < vector_width; ++i) scaled_sum.at[i] += gradient.at[i] * (values.at[i] - mean) * rstd;
    }
  }
  const auto at = blockIdx.y * columns + c;
#pragma unroll
  for (int i = 0; i < vector_width; ++i) {
    sums[at + i] = sum.at[i];
    if constexpr (scaled) scaled_sums[at + i] = scaled_sum.at[i];
  }
}

constexpr unsigned adding_columns = 32, adding_rows = 32;

/// Each block adds 32 columns. Each row of threads adds every 32nd part; then one row adds these sums. blockIdx.y is 0
/// for the gain and 1 for the shift.
__global__ void __launch_bounds__(adding_columns* adding_rows)
    add_parts_kernel(const float* parts, std::size_t count, std::size_t columns, NormGradient to) {
  __shared__ float sums[adding_rows][adding_columns];
  const auto c = static_cast<std::size_t>(blockIdx.x) * adding_columns + threadIdx.x;
  const bool second = blockIdx.y == 1;
  float sum = 0;
  if (c < columns) {
    const auto* const from = parts + (second ? count * columns : 0) + c;
#pragma unroll 4
    for (std::size_t part = threadIdx.y; part < count; part += adding_rows) sum += from[part * columns];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || c >= columns) return;
  auto* const at = (second ? to.shift : to.gain) + c;
  sum = to.accumulate ? *at : 0.0F;
#pragma unroll
  for (const auto& row : sums) sum += row[threadIdx.x];
  *at = sum;
}

}  // namespace

std::size_t ColumnPartials::wanted(std::size_t columns, std::size_t most_parts) { return 2 * most_parts * columns; }
std::size_t ColumnPartials::parts(std::size_t columns) const { return std::min(count / (2 * columns), most_parts); }

void add_parts(cudaStream_t stream, const ColumnPartials& partials, std::size_t count, std::size_t columns,
               const NormGradient& to) {
  const dim3 grid(static_cast<unsigned>((columns + adding_columns - 1) / adding_columns), to.shift != nullptr ? 2 : 1);
  add_parts_kernel<<<grid, dim3(adding_columns, adding_rows), 0, stream>>>(partials.at, count, columns, to);
  check(cudaGetLastError());
}

namespace {

/// Sums dy; with statistics, also computes the gradients of a norm's gain and shift.
template <bool scaled>
std::size_t sum_parts(cudaStream_t stream, Matrix<const Bf16> dy, Matrix<const Bf16> x,
                      const NormStatistics& statistics, const ColumnPartials& partials) {
  const auto columns = dy.cols;
  const auto parts = std::clamp<std::size_t>((dy.rows + least_rows - 1) / least_rows, 1, partials.parts(columns));
  auto *const first = partials.at, *const second = partials.at + parts * columns;
  const dim3 grid(static_cast<unsigned>((columns / vector_width + column_threads - 1) / column_threads),
                  static_cast<unsigned>(parts));
  parts_kernel<scaled><<<grid, column_threads, 0, stream>>>(dy, x, statistics, dy.rows, columns,
                                                            (dy.rows + parts - 1) / parts, scaled ? second : first,
                                                            scaled ? first : nullptr);
  check(cudaGetLastError());
  return parts;
}

}  // namespace

void norm_gradient(cudaStream_t stream, Matrix<const Bf16> dn, Matrix<const Bf16> x, const NormStatistics& statistics,
                   const NormGradient& gradient, const ColumnPartials& partials) {
  add_parts(stream, partials, sum_parts<true>(stream, dn, x, statistics, partials), dn.cols, gradient);
}

void sum_rows(cudaStream_t stream, Matrix<const Bf16> dy, bool accumulate, float* sums,
              const ColumnPartials& partials) {
  add_parts(stream, partials, sum_parts<false>(stream, dy, dy, {}, partials), dy.cols, {sums, nullptr, accumulate});
}

}  // namespace shakedown::cuda
