// Sums over the rows of a matrix: the gradients of biases, of what norms multiply with and add, and of positions. Each
// block sums some rows of some columns, then one thread per column adds the blocks' sums in their order.
#include <algorithm>

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/handle.hpp"
#include "kernels/cuda/training/kernels.hpp"
#include "kernels/cuda/training/vector.cuh"

namespace shakedown::cuda {

namespace {

constexpr std::size_t most_parts = 256, least_rows = 32;  // of one part
constexpr int threads = 128;                              // of eight columns each

/// Part p of `rows_of_part` rows leaves its sums at sums[p columns + c]; with `scaled` those of dy (x - mean) rstd at
/// scaled_sums.
template <bool scaled>
__global__ void __launch_bounds__(threads)
    parts_kernel(Rows<const Bf16> dy, Rows<const Bf16> x, NormStatistics statistics, std::size_t rows,
                 std::size_t columns, std::size_t rows_of_part, float* sums, float* scaled_sums) {
  const auto c = (static_cast<std::size_t>(blockIdx.x) * threads + threadIdx.x) * vector_width;
  if (c >= columns) return;
  const auto begin = blockIdx.y * rows_of_part, end = min(begin + rows_of_part, rows);
  Eight sum{}, scaled_sum{};
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

__global__ void add_parts_kernel(const float* parts, std::size_t count, std::size_t columns, bool accumulate,
                                 float* sums) {
  for (auto c = first_index(); c < columns; c += stride()) {
    float sum = accumulate ? sums[c] : 0.0F;
    for (std::size_t part = 0; part < count; ++part) sum += parts[part * columns + c];
    sums[c] = sum;
  }
}

}  // namespace

std::size_t ColumnPartials::wanted(std::size_t columns) { return 2 * most_parts * columns; }

void norm_gradient(cudaStream_t stream, Matrix<const Bf16> dn, Matrix<const Bf16> x, const NormStatistics& statistics,
                   bool accumulate, float* d_gain, float* d_shift, const ColumnPartials& partials) {
  const auto columns = dn.cols, most = partials.count / (2 * columns);
  const auto parts = std::clamp<std::size_t>((dn.rows + least_rows - 1) / least_rows, 1, std::min(most, most_parts));
  auto *const sums = partials.at, *const scaled_sums = partials.at + parts * columns;
  const dim3 grid(static_cast<unsigned>((columns / vector_width + threads - 1) / threads),
                  static_cast<unsigned>(parts));
  const auto rows_of_part = (dn.rows + parts - 1) / parts;
  const bool scaled = d_gain != nullptr;
  const auto kernel = scaled ? parts_kernel<true> : parts_kernel<false>;
  kernel<<<grid, threads, 0, stream>>>(dn, x, statistics, dn.rows, columns, rows_of_part, sums, scaled_sums);
  check(cudaGetLastError());
  const auto add = [&](const float* from, float* to) {
    if (to == nullptr) return;
    add_parts_kernel<<<blocks_for(columns), block, 0, stream>>>(from, parts, columns, accumulate, to);
    check(cudaGetLastError());
  };
  add(scaled_sums, d_gain);
  add(sums, d_shift);
}

void sum_rows(cudaStream_t stream, Matrix<const Bf16> dy, bool accumulate, float* sums,
              const ColumnPartials& partials) {
  norm_gradient(stream, dy, dy, {}, accumulate, nullptr, sums, partials);
}

}  // namespace shakedown::cuda
