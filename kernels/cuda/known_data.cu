// Kernels that write and check known data. The integer formulas are called from reference.hpp.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>
#include <type_traits>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/handle.hpp"
#include "kernels/cuda/known_data.cuh"
#include "kernels/cuda/known_data.hpp"

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

__global__ void write_scales_kernel(unsigned char* factors, std::size_t rows, reference::BlockScales scales,
                                    unsigned char unit, unsigned char step) {
  for (auto i = first_index(); i < rows * scales.blocks; i += stride()) {
    const auto row = i / scales.blocks, of_row = i % scales.blocks;
    const int exponent = reference::BlockScales::exponent(row, of_row);
    factors[scales.place(row, of_row)] = static_cast<unsigned char>(unit + exponent * step);
  }
}

__global__ void write_float_scales_kernel(float* factors, reference::FloatScales scales, std::size_t row_blocks,
                                          std::size_t depth_blocks) {
  for (auto i = first_index(); i < row_blocks * depth_blocks; i += stride()) {
    const auto row = (i % row_blocks) << scales.row_shift, l = (i / row_blocks) << scales.depth_shift;
    factors[scales.place(row, l)] = scales.at(row, l);
  }
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

/// Each thread has several vectors in flight, so that the kernel is limited by memory bandwidth.
__global__ void digest_kernel(const std::byte* bytes, std::size_t count, unsigned long long* sum) {
  unsigned long long mine = 0;
  const auto* const vectors = reinterpret_cast<const ulonglong2*>(bytes);
#pragma unroll 4
  for (auto i = first_index(); i < count / 16; i += stride()) {
    const auto vector = vectors[i];
    mine += digest_of_vector(vector.x, vector.y, i);
  }
  if (first_index() == 0 && count % 16 != 0) {
    std::uint64_t words[2] = {};
    for (auto i = count / 16 * 16; i < count; ++i) {
      words[i % 16 / 8] |= static_cast<std::uint64_t>(bytes[i]) << (i % 8 * 8);  // the GPU is little-endian
    }
    mine += digest_of_vector(words[0], words[1], count / 16);
  }
  add_to(sum, mine);
}

// The integers are below 2^24 and below the exact limit of the type, so no conversion rounds.
__device__ void store_addend(float* to, float value) { *to = value; }
__device__ void store_addend(__half* to, float value) { *to = __float2half_rn(value); }
__device__ void store_addend(__nv_bfloat16* to, float value) { *to = __float2bfloat16_rn(value); }

__device__ float load_addend(const float* from) { return *from; }
__device__ float load_addend(const __half* from) { return __half2float(*from); }
__device__ float load_addend(const __nv_bfloat16* from) { return __bfloat162float(*from); }

template <class T>
__global__ void write_addends_kernel(T* values, std::size_t count, AddendPattern pattern) {
  for (auto i = first_index(); i < count; i += stride()) store_addend(values + i, static_cast<float>(pattern.at(i)));
}

template <class T>
__global__ void count_wrong_addends_kernel(const T* values, std::size_t count, AddendPattern pattern, Tally* tally) {
  LocalTally mine;
  for (auto i = first_index(); i < count; i += stride()) {
    mine.add(load_addend(values + i) == static_cast<float>(pattern.at(i)), i);  // a NaN never compares equal
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

/// Calls action with a null pointer of the element type.
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

/// Counts words whose value differs from the last operation's. All sizes are in words. The reported index is the index
/// of the place.
template <class Word>
__global__ void count_wrong_heads_kernel(const Word* first, std::size_t places, std::size_t step, std::size_t head,
                                         Tally* tally) {
  LocalTally mine;
  const Word* const last = first + places * step;
  for (auto i = first_index(); i < places * head; i += stride()) {
    const auto place = i / head, word = i % head;
    mine.add(first[place * step + word] == last[word], place);
  }
  mine.add_to(tally);
}

template <class Word>
void count_wrong_heads(cudaStream_t stream, const void* first, std::size_t places, const Trail& trail, Tally* tally) {
  const auto step = trail.step() / sizeof(Word), head = trail.head() / sizeof(Word);
  count_wrong_heads_kernel<<<blocks_for(places * head), block, 0, stream>>>(static_cast<const Word*>(first), places,
                                                                            step, head, tally);
  check(cudaGetLastError());
}

}  // namespace

void fill_words(const Gpu& gpu, const View& buffer, std::uint64_t source, Content content) {
  const WordPattern pattern{buffer.bytes(), source, content};
  write_words_kernel<<<blocks_for(pattern.words()), block, 0, gpu.stream()>>>(buffer.data<std::uint64_t>(), pattern);
  check(cudaGetLastError());
}

Tally count_wrong(const Gpu& gpu, const View& buffer, const WordPattern& pattern) {
  auto* const tally = gpu.start_tally();
  count_wrong_words_kernel<<<blocks_for(pattern.words()), block, 0, gpu.stream()>>>(buffer.data<const std::uint64_t>(),
                                                                                    pattern, tally);
  check(cudaGetLastError());
  return gpu.finish_tally();
}

void add_expected_words(const Gpu& gpu, const WordPattern& pattern, unsigned long long* sum) {
  add_expected_words_kernel<<<blocks_for(pattern.words()), block, 0, gpu.stream()>>>(pattern, sum);
  check(cudaGetLastError());
}

void add_words(const Gpu& gpu, const std::uint64_t* words, std::size_t count, unsigned long long* sum) {
  add_words_kernel<<<blocks_for(count), block, 0, gpu.stream()>>>(words, count, sum);
  check(cudaGetLastError());
}

void fill_normal(const Gpu& gpu, const Buffer& buffer, DType dtype, std::size_t count, std::uint64_t stream_id) {
  const auto blocks = blocks_for(count);
  with_element(dtype, [&](auto zero) {
    using Element = decltype(zero);
    auto* const to = buffer.data<Element>();
    if constexpr (std::is_same_v<Element, TwoE2m1>) {
      write_normal_pairs_kernel<<<blocks, block, 0, gpu.stream()>>>(to, count, stream_id);
    } else {
      const double deviation = std::is_same_v<Element, std::int8_t> ? int8_deviation : 1;
      write_normal_kernel<<<blocks, block, 0, gpu.stream()>>>(to, count, stream_id, deviation);
    }
  });
  check(cudaGetLastError());
}

void fill_scales(const Gpu& gpu, const Buffer& buffer, std::size_t rows, const reference::BlockScales& scales,
                 unsigned char unit, unsigned char step) {
  gpu.fill(buffer, unit);
  write_scales_kernel<<<blocks_for(rows * scales.blocks), block, 0, gpu.stream()>>>(buffer.data<unsigned char>(), rows,
                                                                                    scales, unit, step);
  check(cudaGetLastError());
}

void fill_scales(const Gpu& gpu, const View& view, const reference::FloatScales& scales, std::size_t rows,
                 std::size_t k) {
  const auto row_blocks = ((rows - 1) >> scales.row_shift) + 1, depth_blocks = ((k - 1) >> scales.depth_shift) + 1;
  gpu.fill(view, 0);
  write_float_scales_kernel<<<blocks_for(row_blocks * depth_blocks), block, 0, gpu.stream()>>>(
      view.data<float>(), scales, row_blocks, depth_blocks);
  check(cudaGetLastError());
}

void add_checksum(const Gpu& gpu, const std::uint64_t* words, std::size_t count, unsigned long long* sum) {
  add_checksum_kernel<<<blocks_for(count), block, 0, gpu.stream()>>>(words, count, sum);
  check(cudaGetLastError());
}

std::optional<std::uint64_t> digest_of(const Gpu& gpu, const View& view) {
  if (view.bytes() > max_digested_bytes) return std::nullopt;
  auto* const sum = gpu.start_sum();
  digest_kernel<<<blocks_for(view.bytes() / 16), block, 0, gpu.stream()>>>(view.at(0), view.bytes(), sum);
  check(cudaGetLastError());
  return gpu.read(sum);
}

void fill_addends(const Gpu& gpu, const View& buffer, DType dtype, const AddendPattern& pattern) {
  const auto count = buffer.bytes() / size_of(dtype);
  with_type(dtype, [&](auto* type) {
    write_addends_kernel<<<blocks_for(count), block, 0, gpu.stream()>>>(static_cast<decltype(type)>(buffer.data()),
                                                                        count, pattern);
  });
}

Tally count_wrong(const Gpu& gpu, const View& buffer, DType dtype, const AddendPattern& pattern) {
  const auto count = buffer.bytes() / size_of(dtype);
  auto* const tally = gpu.start_tally();
  with_type(dtype, [&](const auto* type) {
    count_wrong_addends_kernel<<<blocks_for(count), block, 0, gpu.stream()>>>(
        static_cast<decltype(type)>(buffer.data()), count, pattern, tally);
  });
  return gpu.finish_tally();
}

void fill_parts(const Gpu& gpu, const View& buffer, const reference::Parts& parts) {
  const auto count = buffer.bytes() / sizeof(std::uint32_t);
  write_parts_kernel<<<blocks_for(count), block, 0, gpu.stream()>>>(buffer.data<std::uint32_t>(), count, parts);
  check(cudaGetLastError());
}

Tally count_wrong(const Gpu& gpu, const View& buffer, const reference::Parts& parts) {
  const auto count = buffer.bytes() / sizeof(std::uint32_t);
  auto* const tally = gpu.start_tally();
  count_wrong_parts_kernel<<<blocks_for(count), block, 0, gpu.stream()>>>(buffer.data<const std::uint32_t>(), count,
                                                                          parts, tally);
  check(cudaGetLastError());
  return gpu.finish_tally();
}

void stage_trail(const Gpu& gpu, const View& whole, Trail& trail, int operations, int poison_byte) {
  trail.stage(static_cast<std::size_t>(operations));
  for (const auto& range : {trail.heads(), trail.tails()}) {
    if (range.size() > 0) gpu.fill(whole.part(range.begin, range.size()), poison_byte);
  }
  gpu.synchronize();
}

void check_trail(const Gpu& gpu, const View& whole, const Trail& trail, Check& total) {
  const auto earlier = trail.earlier();
  const auto places = earlier.size() / trail.step();
  if (places == 0) return;
  auto* const tally = gpu.start_tally();
  if (trail.head() % sizeof(std::uint32_t) == 0) {
    count_wrong_heads<std::uint32_t>(gpu.stream(), whole.at(earlier.begin), places, trail, tally);
  } else {
    count_wrong_heads<std::uint8_t>(gpu.stream(), whole.at(earlier.begin), places, trail, tally);
  }
  const auto counted = gpu.finish_tally();
  total.compared += places;
  if (counted.mismatched == 0) return;
  ++total.mismatched;
  if (total.first.empty()) total.first = trail.missing(counted.first);
}

}  // namespace shakedown::cuda
