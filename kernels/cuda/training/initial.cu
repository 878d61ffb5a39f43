// Initial values: seeded normal numbers by their index alone, so that every rank, the host and the GPU agree, whatever
// the order; rounded to the type.
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/handle.hpp"
#include "kernels/cuda/normal.cuh"
#include "kernels/cuda/training/kernels.hpp"

namespace shakedown::cuda {

namespace {

template <class T>
__global__ void fill_normal_kernel(Rows<T> to, std::size_t count, int columns, double deviation,
                                   std::uint64_t first, std::uint64_t stream_id) {
  for (auto i = first_index(); i < count; i += stride()) {
    store(to.at(i / columns) + i % columns, deviation * normal(first + i, stream_id));
  }
}

__global__ void fill_value_kernel(Rows<Bf16> to, std::size_t count, int columns, float value) {
  for (auto i = first_index(); i < count; i += stride()) to.at(i / columns)[i % columns] = __float2bfloat16(value);
}

std::size_t area(int rows, int columns) { return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns); }

template <class T>
void launch_normal(cudaStream_t stream, Rows<T> to, int rows, int columns, float deviation, std::uint64_t first,
                 std::uint64_t stream_id) {
  const auto count = area(rows, columns);
  fill_normal_kernel<<<blocks_for(count), block, 0, stream>>>(to, count, columns, deviation, first, stream_id);
  check(cudaGetLastError());
}

}  // namespace

void fill_normal(cudaStream_t stream, Rows<Bf16> to, int rows, int columns, float deviation, std::uint64_t first,
                 std::uint64_t stream_id) {
  launch_normal(stream, to, rows, columns, deviation, first, stream_id);
}
void fill_normal(cudaStream_t stream, Rows<float> to, int rows, int columns, float deviation, std::uint64_t first,
                 std::uint64_t stream_id) {
  launch_normal(stream, to, rows, columns, deviation, first, stream_id);
}

void fill_value(cudaStream_t stream, Rows<Bf16> to, int rows, int columns, float value) {
  const auto count = area(rows, columns);
  fill_value_kernel<<<blocks_for(count), block, 0, stream>>>(to, count, columns, value);
  check(cudaGetLastError());
}

}  // namespace shakedown::cuda
