// Known data on the GPU, written and checked. The integer formulas are those of reference.hpp themselves; normal is
// written out again, because the host's is not for kernels.
#include <cuda_bf16.h>

#include <stdexcept>

#include "kernels/cuda/data.hpp"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/handle.hpp"
#include "kernels/cuda/tally.cuh"

namespace shakedown::cuda {

namespace {

__global__ void write_words_kernel(std::uint64_t* words, WordPattern pattern) {
  for (auto i = first_index(); i < pattern.words(); i += stride()) words[i] = pattern.at(i);
}

__global__ void count_wrong_words_kernel(const std::uint64_t* words, WordPattern pattern, Tally* tally) {
  LocalTally mine;
  for (auto i = first_index(); i < pattern.words(); i += stride()) mine.add(words[i] == pattern.at(i), i);
  mine.add_to(tally);
}

__device__ double normal(std::uint64_t i, std::uint64_t stream_id) {
  constexpr double scale = 1.0 / 9007199254740992.0;  // 2^-53
  const std::uint64_t bits = reference::mix(i ^ (stream_id << 56));
  const double u = (static_cast<double>(reference::mix(bits) >> 11) + 0.5) * scale;
  const double v = static_cast<double>(reference::mix(bits + 1) >> 11) * scale;
  return sqrt(-2.0 * log(u)) * cospi(2.0 * v);
}

__device__ void store(float* to, double value) { *to = static_cast<float>(value); }
__device__ void store(__nv_bfloat16* to, double value) { *to = __double2bfloat16(value); }

template <class T>
__global__ void write_normal_kernel(T* values, std::size_t count, std::uint64_t stream_id) {
  for (auto i = first_index(); i < count; i += stride()) store(values + i, normal(i, stream_id));
}

__global__ void add_checksum_kernel(const std::uint64_t* words, std::size_t count, unsigned long long* sum) {
  unsigned long long mine = 0;
  for (auto i = first_index(); i < count; i += stride()) mine += reference::mix(words[i] ^ reference::mix(i));
  for (int step = 16; step > 0; step /= 2) mine += __shfl_xor_sync(0xffffffffU, mine, step);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}

}  // namespace

void write_words(cudaStream_t stream, std::uint64_t* words, const WordPattern& pattern) {
  write_words_kernel<<<blocks_for(pattern.words()), block, 0, stream>>>(words, pattern);
  check(cudaGetLastError());
}

void count_wrong_words(cudaStream_t stream, const std::uint64_t* words, const WordPattern& pattern, Tally* tally) {
  count_wrong_words_kernel<<<blocks_for(pattern.words()), block, 0, stream>>>(words, pattern, tally);
  check(cudaGetLastError());
}

void write_normal(cudaStream_t stream, void* values, DType dtype, std::size_t count, std::uint64_t stream_id) {
  const auto blocks = blocks_for(count);
  switch (dtype) {
    case DType::f32:
      write_normal_kernel<<<blocks, block, 0, stream>>>(static_cast<float*>(values), count, stream_id);
      break;
    case DType::bf16:
      write_normal_kernel<<<blocks, block, 0, stream>>>(static_cast<__nv_bfloat16*>(values), count, stream_id);
      break;
    default: throw std::invalid_argument("write_normal: only f32 and bf16");
  }
  check(cudaGetLastError());
}

void add_checksum(cudaStream_t stream, const std::uint64_t* words, std::size_t count, unsigned long long* sum) {
  add_checksum_kernel<<<blocks_for(count), block, 0, stream>>>(words, count, sum);
  check(cudaGetLastError());
}

}  // namespace shakedown::cuda
