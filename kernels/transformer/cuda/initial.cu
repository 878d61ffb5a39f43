// Initial values: seeded normal numbers that depend only on their index, rounded to the type. All ranks, the host and
// the GPU therefore agree, in any order of computation.
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/handle.hpp"
#include "kernels/cuda/known_data.cuh"
#include "kernels/transformer/cuda/decode_kernels.hpp"
#include "kernels/transformer/cuda/kernels.hpp"
#include "kernels/transformer/cuda/vector.cuh"

namespace shakedown::cuda {

namespace {

template <class T>
__global__ void fill_normal_kernel(Rows<T> to, std::size_t count, std::size_t columns, double stddev,
                                   std::uint64_t tensor, std::size_t first, training::Numbers numbers) {
  for (auto i = first_index(); i < count; i += stride()) {
    store(to.at(i / columns) + i % columns, stddev * normal((tensor << 32) + numbers(first + i), 0));
  }
}

template <class T>
void launch(cudaStream_t stream, Matrix<T> to, double stddev, std::uint64_t tensor, std::size_t first,
            const training::Numbers& numbers) {
  const auto count = to.rows * to.cols;
  fill_normal_kernel<T><<<blocks_for(count), block, 0, stream>>>(to, count, to.cols, stddev, tensor, first, numbers);
  check(cudaGetLastError());
}

}  // namespace

void fill_normal(cudaStream_t stream, Matrix<Bf16> to, double stddev, std::uint64_t tensor) {
  launch(stream, to, stddev, tensor, 0, {});
}
void fill_normal(cudaStream_t stream, Matrix<Bf16> to, double stddev, std::uint64_t tensor,
                 const training::Numbers& numbers) {
  launch(stream, to, stddev, tensor, 0, numbers);
}
void fill_normal(cudaStream_t stream, Matrix<float> to, double stddev, std::uint64_t tensor, std::size_t first,
                 const training::Numbers& numbers) {
  launch(stream, to, stddev, tensor, first, numbers);
}

}  // namespace shakedown::cuda
