// Known data of collectives on the GPU, written and checked.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>

#include "kernels/cuda/collective_data.hpp"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/handle.hpp"
#include "kernels/cuda/tally.cuh"

namespace shakedown::cuda {

namespace {

// The integers are below 2^24, and below the limit of the type: no conversion rounds.
__device__ void store(float* to, float value) { *to = value; }
__device__ void store(__half* to, float value) { *to = __float2half_rn(value); }
__device__ void store(__nv_bfloat16* to, float value) { *to = __float2bfloat16_rn(value); }

__device__ float load(const float* from) { return *from; }
__device__ float load(const __half* from) { return __half2float(*from); }
__device__ float load(const __nv_bfloat16* from) { return __bfloat162float(*from); }

template <class T>
__global__ void write_addends_kernel(T* values, std::size_t count, AddendPattern pattern) {
  for (auto i = first_index(); i < count; i += stride()) store(values + i, static_cast<float>(pattern.at(i)));
}

template <class T>
__global__ void count_wrong_addends_kernel(const T* values, std::size_t count, AddendPattern pattern, Tally* tally) {
  LocalTally mine;
  for (auto i = first_index(); i < count; i += stride()) {
    mine.add(load(values + i) == static_cast<float>(pattern.at(i)), i);  // NaN is not equal to anything
  }
  mine.add_to(tally);
}

__global__ void write_parts_kernel(std::uint32_t* words, std::size_t count, reference::Parts parts) {
  for (auto i = first_index(); i < count; i += stride()) words[i] = parts.at(i);
}

__global__ void count_wrong_parts_kernel(const std::uint32_t* words, std::size_t count, reference::Parts parts,
                                         Tally* tally) {
  LocalTally mine;
  for (auto i = first_index(); i < count; i += stride()) mine.add(words[i] == parts.at(i), i);
  mine.add_to(tally);
}

/// Calls action with a pointer of the type that the elements have.
template <class Action>
void with_type(DType dtype, const Action& action) {
  switch (dtype) {
    case DType::f32: action(static_cast<float*>(nullptr)); break;
    case DType::f16: action(static_cast<__half*>(nullptr)); break;
    case DType::bf16: action(static_cast<__nv_bfloat16*>(nullptr)); break;
    default: throw std::invalid_argument("addends are f32, f16 or bf16, not " + std::string(name(dtype)));
  }
  check(cudaGetLastError());
}

}  // namespace

void write_addends(cudaStream_t stream, void* values, DType dtype, std::size_t count, const AddendPattern& pattern) {
  with_type(dtype, [&](auto* type) {
    write_addends_kernel<<<blocks_for(count), block, 0, stream>>>(static_cast<decltype(type)>(values), count, pattern);
  });
}

void count_wrong_addends(cudaStream_t stream, const void* values, DType dtype, std::size_t count,
                         const AddendPattern& pattern, Tally* tally) {
  with_type(dtype, [&](const auto* type) {
    count_wrong_addends_kernel<<<blocks_for(count), block, 0, stream>>>(static_cast<decltype(type)>(values), count,
                                                                        pattern, tally);
  });
}

void write_parts(cudaStream_t stream, std::uint32_t* words, std::size_t count, const reference::Parts& parts) {
  write_parts_kernel<<<blocks_for(count), block, 0, stream>>>(words, count, parts);
  check(cudaGetLastError());
}

void count_wrong_parts(cudaStream_t stream, const std::uint32_t* words, std::size_t count,
                       const reference::Parts& parts, Tally* tally) {
  count_wrong_parts_kernel<<<blocks_for(count), block, 0, stream>>>(words, count, parts, tally);
  check(cudaGetLastError());
}

}  // namespace shakedown::cuda
