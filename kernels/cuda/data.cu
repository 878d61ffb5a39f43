// Known data on the GPU, written and checked. The integer formulas are those of reference.hpp themselves.
#include <type_traits>

#include "kernels/cuda/data.hpp"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/handle.hpp"
#include "kernels/cuda/normal.cuh"
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

/// Adds the values of all threads to *sum; called by whole warps.
__device__ void add_to(unsigned long long* sum, unsigned long long mine) {
  for (int step = 16; step > 0; step /= 2) mine += __shfl_xor_sync(0xffffffffU, mine, step);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}

__global__ void add_expected_words_kernel(WordPattern pattern, unsigned long long* sum) {
  unsigned long long mine = 0;
  for (auto i = first_index(); i < pattern.words(); i += stride()) mine += pattern.at(i);
  add_to(sum, mine);
}

__global__ void add_words_kernel(const std::uint64_t* words, std::size_t count, unsigned long long* sum) {
  unsigned long long mine = 0;
  for (auto i = first_index(); i < count; i += stride()) mine += words[i];
  add_to(sum, mine);
}

template <class T>
__global__ void write_normal_kernel(T* values, std::size_t count, std::uint64_t stream_id, double deviation) {
  for (auto i = first_index(); i < count; i += stride()) store(values + i, deviation * normal(i, stream_id));
}

__global__ void write_normal_pairs_kernel(TwoE2m1* pairs, std::size_t count, std::uint64_t stream_id) {
  for (auto i = first_index(); i < (count + 1) / 2; i += stride()) {
    const double second = 2 * i + 1 < count ? normal(2 * i + 1, stream_id) : 0.0;
    pairs[i] = pack(normal(2 * i, stream_id), second);
  }
}

__global__ void add_checksum_kernel(const std::uint64_t* words, std::size_t count, unsigned long long* sum) {
  unsigned long long mine = 0;
  for (auto i = first_index(); i < count; i += stride()) mine += reference::mix(words[i] ^ reference::mix(i));
  add_to(sum, mine);
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

void add_expected_words(cudaStream_t stream, const WordPattern& pattern, unsigned long long* sum) {
  add_expected_words_kernel<<<blocks_for(pattern.words()), block, 0, stream>>>(pattern, sum);
  check(cudaGetLastError());
}

void add_words(cudaStream_t stream, const std::uint64_t* words, std::size_t count, unsigned long long* sum) {
  add_words_kernel<<<blocks_for(count), block, 0, stream>>>(words, count, sum);
  check(cudaGetLastError());
}

void write_normal(cudaStream_t stream, void* values, DType dtype, std::size_t count, std::uint64_t stream_id) {
  const auto blocks = blocks_for(count);
  with_element(dtype, [&](auto zero) {
    using Element = decltype(zero);
    auto* const to = static_cast<Element*>(values);
    if constexpr (std::is_same_v<Element, TwoE2m1>) {
      write_normal_pairs_kernel<<<blocks, block, 0, stream>>>(to, count, stream_id);
    } else {
      const double deviation = std::is_same_v<Element, std::int8_t> ? int8_deviation : 1;
      write_normal_kernel<<<blocks, block, 0, stream>>>(to, count, stream_id, deviation);
    }
  });
  check(cudaGetLastError());
}

void add_checksum(cudaStream_t stream, const std::uint64_t* words, std::size_t count, unsigned long long* sum) {
  add_checksum_kernel<<<blocks_for(count), block, 0, stream>>>(words, count, sum);
  check(cudaGetLastError());
}

}  // namespace shakedown::cuda
