// One block of threads quantizes one row. It computes the row in registers, rounded to bf16, finds the largest value,
// and writes the 8-bit floats: the row passes through memory once.
#include <cuda_fp8.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/cuda/handle.hpp"
#include "kernels/reference.hpp"
#include "kernels/transformer/cuda/activation.cuh"
#include "kernels/transformer/cuda/quantize.hpp"
#include "kernels/transformer/quantize.hpp"

namespace shakedown::cuda {

namespace {

// With 64 registers for each thread, two blocks of rows of 32,768 run on a multiprocessor at once, so that one reads
// while the other computes.
constexpr int vectors_of_thread = 8, max_threads = 1024;  // of a thread; of a block
static_assert(max_quantized_columns == std::size_t{vectors_of_thread} * max_threads * vector_width);

/// The part of a row in one thread: vector v is at column (v threads + thread) 8, if the row has it.
struct RowPart {
  uint4 packed[vectors_of_thread];

  /// Calls body(v, column) for the vectors that exist in the row.
  template <class Body>
  static __device__ void each(int columns, const Body& body) {
#pragma unroll
    for (int v = 0; v < vectors_of_thread; ++v) {
      const int c = (v * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * vector_width;
      if (c < columns) body(v, c);
    }
  }
};

// Sources: the rows that are quantized --------------------------------------------------------------------------------

struct PlainSource {
  Rows<const Bf16> x;
  __device__ void read(std::size_t row, int columns, RowPart& part) const {
    RowPart::each(columns, [&](int v, int c) { part.packed[v] = load_packed(x.at(row) + c); });
  }
};

struct GeluSource {
  Rows<const Bf16> u;
  __device__ void read(std::size_t row, int columns, RowPart& part) const {
    RowPart::each(columns, [&](int v, int c) { part.packed[v] = pack(gelu_of(load(u.at(row) + c))); });
  }
};

template <bool centred>
struct NormSource {
  Rows<const Bf16> x;
  NormWeights weights;
  NormStatistics statistics;
  float epsilon;

  __device__ void read(std::size_t row, int columns, RowPart& part) const {
    float sum = 0, squares = 0, mean = 0;
    RowPart::each(columns, [&](int v, int c) {
      part.packed[v] = load_packed(x.at(row) + c);
      for (const float value : unpack(part.packed[v]).at) sum += value;
    });
    if constexpr (centred) mean = sum_block(sum) / static_cast<float>(columns);
    RowPart::each(columns, [&](int v, int) {
      for (const float value : unpack(part.packed[v]).at) squares += (value - mean) * (value - mean);
    });
    const float rstd = rsqrtf(sum_block(squares) / static_cast<float>(columns) + epsilon);
    if (threadIdx.x == 0) {
      statistics.rstd[row] = rstd;
      if constexpr (centred) statistics.mean[row] = mean;
    }
    RowPart::each(columns, [&](int v, int c) {
      Eight n = unpack(part.packed[v]);
      const Eight gain = load(weights.gain + c);
      for (int i = 0; i < vector_width; ++i) n.at[i] = (n.at[i] - mean) * rstd * gain.at[i];
      if constexpr (centred) {
        const Eight shift = load(weights.shift + c);
        for (int i = 0; i < vector_width; ++i) n.at[i] += shift.at[i];
      }
      part.packed[v] = pack(n);
    });
  }
};

// Targets: one factor for each row, or for each 32 neighbours ---------------------------------------------------------

/// Returns the bits of the largest of eight bf16 without their signs. Infinity and NaN are larger than all others.
__device__ unsigned largest_bits(const uint4& packed) {
  constexpr unsigned sizes = 0x7fff7fffU;
  const unsigned two =
      __vmaxu2(__vmaxu2(packed.x & sizes, packed.y & sizes), __vmaxu2(packed.z & sizes, packed.w & sizes));
  return max(two >> 16, two & 0xffffU);
}
constexpr unsigned infinity_bits = 0x7f80;

/// Returns the size of the largest finite value.
__device__ float largest_size(const uint4& packed) {
  if (const unsigned bits = largest_bits(packed); bits < infinity_bits) return __uint_as_float(bits << 16);
  float largest = 0;
  for (const float value : unpack(packed).at) largest = fmaxf(largest, isfinite(value) ? fabsf(value) : 0.0F);
  return largest;
}

__device__ unsigned two_float8(float first, float second, Float8 type) {
  const float2 both{first, second};
  return type == Float8::e4m3 ? __nv_cvt_float2_to_fp8x2(both, __NV_SATFINITE, __NV_E4M3)
                              : __nv_cvt_float2_to_fp8x2(both, __NV_SATFINITE, __NV_E5M2);
}

/// Unpacks eight values. Infinity becomes NaN.
__device__ Eight unpack_finite(const uint4& packed) {
  Eight x = unpack(packed);
  if (largest_bits(packed) >= infinity_bits) {
    for (float& value : x.at) value = isfinite(value) ? value : NAN;
  }
  return x;
}

/// Writes eight values times `inverse` as 8-bit floats. Infinity becomes NaN.
__device__ void store_float8(std::uint8_t* to, const uint4& packed, float inverse, Float8 type) {
  Eight x = unpack_finite(packed);
  for (float& value : x.at) value *= inverse;
  const auto four = [&](int i) {
    return two_float8(x.at[i], x.at[i + 1], type) | two_float8(x.at[i + 2], x.at[i + 3], type) << 16;
  };
  *reinterpret_cast<uint2*>(to) = uint2{four(0), four(4)};
}

struct RowTarget {
  Rows<std::uint8_t> values;
  float* scales;
  Float8 type;

  __device__ void write(std::size_t row, int columns, const RowPart& part) const {
    float largest = 0;
    RowPart::each(columns, [&](int v, int) { largest = fmaxf(largest, largest_size(part.packed[v])); });
    const float scale = training::row_scale(max_block(largest), type), inverse = 1.0F / scale;
    if (threadIdx.x == 0) scales[row] = scale;
    RowPart::each(columns, [&](int v, int c) { store_float8(values.at(row) + c, part.packed[v], inverse, type); });
  }
};

struct BlockTarget {
  Rows<std::uint8_t> values;
  std::uint8_t* scales;
  Float8 type;

  /// Four neighbouring threads have the values of one factor.
  __device__ void write(std::size_t row, int columns, const RowPart& part) const {
    const reference::BlockScales order{static_cast<std::uint64_t>(columns) / training::scale_block};
    RowPart::each(columns, [&](int v, int c) {
      const unsigned together = 0xfU << (threadIdx.x % 32 / 4 * 4);
      float largest = largest_size(part.packed[v]);
      for (const int step : {1, 2}) largest = fmaxf(largest, __shfl_xor_sync(together, largest, step));
      const auto code = training::block_scale(largest, type);
      if (threadIdx.x % 4 == 0) scales[order.place(row, static_cast<unsigned>(c) / training::scale_block)] = code;
      store_float8(values.at(row) + c, part.packed[v], training::block_inverse(code), type);
    });
  }
};

template <class Source, class Target>
__global__ void __launch_bounds__(max_threads) quantize_kernel(Source source, Target target, int columns) {
  RowPart part;
  source.read(blockIdx.x, columns, part);
  target.write(blockIdx.x, columns, part);
}

__device__ float largest_of_warp(float mine) {
  for (int step = 16; step > 0; step /= 2) mine = fmaxf(mine, __shfl_xor_sync(0xffffffffU, mine, step));
  return mine;
}

constexpr unsigned warp = 32, warps_each = 8;  // threads of a warp; warps of a block in the kernels below

/// One warp processes a row.
__global__ void requantize_kernel(Rows<const Bf16> x, RowTarget target, std::size_t rows, int first, int columns) {
  const std::size_t row = std::size_t{blockIdx.x} * warps_each + threadIdx.x / warp;
  if (row >= rows) return;
  const auto* const from = x.at(row);
  const int lane = static_cast<int>(threadIdx.x % warp);
  const auto each = [&](int begin, const auto& body) {
    for (int c = begin + lane * vector_width; c < columns; c += static_cast<int>(warp) * vector_width) body(c);
  };
  const auto largest_from = [&](int begin) {
    float largest = 0;
    each(begin, [&](int c) { largest = fmaxf(largest, largest_size(load_packed(from + c))); });
    return largest_of_warp(largest);
  };
  float scale = target.scales[row];
  if (training::row_scale(largest_from(first), target.type) > scale) {
    first = 0;
    scale = training::roomy_scale(largest_from(first), target.type);
    if (lane == 0) target.scales[row] = scale;
  }
  each(first,
       [&](int c) { store_float8(target.values.at(row) + c, load_packed(from + c), 1.0F / scale, target.type); });
}

/// Returns the largest sizes in eight columns from the rows from `first` on. All threads of the block get them.
__device__ Eight largest_of_columns(const Rows<const Bf16>& x, std::size_t rows, std::size_t first, int c) {
  Eight largest{};
  for (std::size_t r = first + threadIdx.x; r < rows; r += blockDim.x) {
    const auto values = load(x.at(r) + c);
#pragma unroll
    for (int i = 0; i < vector_width; ++i) {
      if (isfinite(values.at[i])) largest.at[i] = fmaxf(largest.at[i], fabsf(values.at[i]));
    }
  }
#pragma unroll
  for (float& size : largest.at) size = max_block(size);
  return largest;
}

/// One block processes eight columns. Its threads have neighbouring rows, so that they write neighbouring bytes.
__global__ void requantize_transposed_kernel(Rows<const Bf16> x, RowTarget target, std::size_t rows,
                                             std::size_t first) {
  const int c = static_cast<int>(blockIdx.x) * vector_width;
  const Eight largest = largest_of_columns(x, rows, first, c);
  Eight scales;
  bool grows[vector_width], any = false;
#pragma unroll
  for (int i = 0; i < vector_width; ++i) {
    scales.at[i] = target.scales[c + i];
    grows[i] = training::row_scale(largest.at[i], target.type) > scales.at[i];
    any |= grows[i];
  }
  if (any) {
    first = 0;
    const Eight all = largest_of_columns(x, rows, first, c);  // after all threads have read their factors
#pragma unroll
    for (int i = 0; i < vector_width; ++i) {
      if (!grows[i]) continue;
      scales.at[i] = training::roomy_scale(all.at[i], target.type);
      if (threadIdx.x == 0) target.scales[c + i] = scales.at[i];
    }
  }
  for (std::size_t r = first + threadIdx.x; r < rows; r += blockDim.x) {
    const auto values = load(x.at(r) + c);
#pragma unroll
    for (int i = 0; i < vector_width; ++i) {
      const float value = isfinite(values.at[i]) ? values.at[i] * (1.0F / scales.at[i]) : NAN;
      target.values.at(static_cast<std::size_t>(c + i))[r] = static_cast<std::uint8_t>(
          __nv_cvt_float_to_fp8(value, __NV_SATFINITE, target.type == Float8::e4m3 ? __NV_E4M3 : __NV_E5M2));
    }
  }
}

constexpr unsigned strip_columns = 32, strip_rows = 256;  // of a block in the kernel below; it has this strip at a time
constexpr unsigned strip_vectors = strip_columns / vector_width;

/// Returns the largest finite sizes in eight columns from `column` on; 0 where there are no columns. A block has a
/// thread for each vector of a strip, and all of them get the sizes of their columns.
__device__ Eight largest_of_strip(const Rows<const Bf16>& x, std::size_t rows, std::size_t column, bool inside) {
  __shared__ unsigned sizes[strip_columns];  // of floats without sign, whose bits are in the order of their values
  const unsigned vector = threadIdx.x % strip_vectors;
  if (threadIdx.x < strip_columns) sizes[threadIdx.x] = 0;
  __syncthreads();
  Eight largest{};
#pragma unroll 4
  for (std::size_t r = threadIdx.x / strip_vectors; inside && r < rows; r += strip_rows) {
    const Eight values = load(x.at(r) + column);
    for (int i = 0; i < vector_width; ++i) {
      largest.at[i] = fmaxf(largest.at[i], isfinite(values.at[i]) ? fabsf(values.at[i]) : 0.0F);
    }
  }
  for (int i = 0; i < vector_width; ++i) {
    for (unsigned step = strip_vectors; step < warp; step *= 2) {
      largest.at[i] = fmaxf(largest.at[i], __shfl_xor_sync(0xffffffffU, largest.at[i], static_cast<int>(step)));
    }
    if (threadIdx.x % warp < strip_vectors) {
      atomicMax(&sizes[vector * vector_width + static_cast<unsigned>(i)], __float_as_uint(largest.at[i]));
    }
  }
  __syncthreads();
  for (int i = 0; i < vector_width; ++i) {
    largest.at[i] = __uint_as_float(sizes[vector * vector_width + static_cast<unsigned>(i)]);
  }
  return largest;
}

/// One block quantizes 32 columns. Shared memory turns the 8-bit floats, so that threads read and write whole sectors
/// of memory.
__global__ void __launch_bounds__(strip_rows* strip_vectors)
    quantize_transposed_kernel(Rows<const Bf16> x, RowTarget target, std::size_t rows, std::size_t columns) {
  constexpr unsigned word = sizeof(unsigned), words = strip_rows / word;
  __shared__ alignas(word) std::uint8_t turned[strip_columns][strip_rows + word];  // a word more: no bank conflicts
  const unsigned vector = threadIdx.x % strip_vectors, row = threadIdx.x / strip_vectors;
  const std::size_t begin = std::size_t{blockIdx.x} * strip_columns, column = begin + vector * vector_width;
  const bool inside = column < columns;
  Eight inverse = largest_of_strip(x, rows, column, inside);
  for (int i = 0; i < vector_width; ++i) {
    const float scale = training::row_scale(inverse.at[i], target.type);
    inverse.at[i] = 1.0F / scale;
    if (inside && row == 0) target.scales[column + static_cast<unsigned>(i)] = scale;
  }
  const auto read = [&](std::size_t r) { return inside && r < rows ? load_packed(x.at(r) + column) : uint4{}; };
  uint4 next = read(row);
  for (std::size_t first = 0; first < rows; first += strip_rows) {
    const Eight values = unpack_finite(next);
    next = read(first + strip_rows + row);
    for (unsigned i = 0; i < vector_width; i += 2) {
      const unsigned two = two_float8(values.at[i] * inverse.at[i], values.at[i + 1] * inverse.at[i + 1], target.type);
      turned[vector * vector_width + i][row] = static_cast<std::uint8_t>(two & 0xffU);
      turned[vector * vector_width + i + 1][row] = static_cast<std::uint8_t>(two >> 8);
    }
    __syncthreads();
    for (unsigned w = threadIdx.x; w < strip_columns * words; w += blockDim.x) {
      const unsigned c = w / words, r = w % words * word;
      if (begin + c >= columns || first + r >= rows) continue;
      *reinterpret_cast<unsigned*>(target.values.at(begin + c) + first + r) =
          *reinterpret_cast<const unsigned*>(&turned[c][r]);
    }
    __syncthreads();
  }
}

template <class Source>
void launch(cudaStream_t stream, const Source& source, const Quantized& to) {
  const auto columns = to.values.cols;
  const std::size_t divisor = to.row_scales != nullptr ? vector_width : training::scale_block;
  if (columns > max_quantized_columns || columns % divisor != 0) {
    throw std::invalid_argument("rows of " + std::to_string(columns) + " columns cannot be quantized: at most " +
                                std::to_string(max_quantized_columns) + ", divisible by " + std::to_string(divisor));
  }
  constexpr std::size_t each = std::size_t{vectors_of_thread} * vector_width;
  const auto threads = static_cast<unsigned>((columns + 32 * each - 1) / (32 * each) * 32);
  const auto rows = static_cast<unsigned>(to.values.rows);
  if (to.row_scales != nullptr) {
    const RowTarget target{to.values, to.row_scales, to.type};
    quantize_kernel<<<rows, threads, 0, stream>>>(source, target, static_cast<int>(columns));
  } else {
    const BlockTarget target{to.values, to.block_scales, to.type};
    quantize_kernel<<<rows, threads, 0, stream>>>(source, target, static_cast<int>(columns));
  }
  check(cudaGetLastError());
}

}  // namespace

void quantize(cudaStream_t stream, Matrix<const Bf16> x, const Quantized& to) { launch(stream, PlainSource{x}, to); }

void requantize(cudaStream_t stream, Matrix<const Bf16> x, std::size_t first, const Quantized& to) {
  const auto blocks = static_cast<unsigned>((x.rows + warps_each - 1) / warps_each);
  requantize_kernel<<<blocks, warps_each * warp, 0, stream>>>(x, RowTarget{to.values, to.row_scales, to.type}, x.rows,
                                                              static_cast<int>(first), static_cast<int>(x.cols));
  check(cudaGetLastError());
}

void requantize_transposed(cudaStream_t stream, Matrix<const Bf16> x, std::size_t first, const Quantized& to) {
  const auto blocks = static_cast<unsigned>(x.cols / vector_width);
  requantize_transposed_kernel<<<blocks, warps_each * warp, 0, stream>>>(
      x, RowTarget{to.values, to.row_scales, to.type}, x.rows, first);
  check(cudaGetLastError());
}

void quantize_transposed(cudaStream_t stream, Matrix<const Bf16> x, const Quantized& to) {
  if (x.rows % vector_width != 0 || x.cols % vector_width != 0) {
    throw std::invalid_argument("columns of " + std::to_string(x.rows) + " x " + std::to_string(x.cols) +
                                " values cannot be quantized: both must be divisible by " +
                                std::to_string(vector_width));
  }
  const auto blocks = static_cast<unsigned>((x.cols + strip_columns - 1) / strip_columns);
  quantize_transposed_kernel<<<blocks, strip_rows * strip_vectors, 0, stream>>>(
      x, RowTarget{to.values, to.row_scales, to.type}, x.rows, x.cols);
  check(cudaGetLastError());
}

void quantize_gelu(cudaStream_t stream, Matrix<const Bf16> u, const Quantized& to) {
  launch(stream, GeluSource{u}, to);
}

void quantize_norm(cudaStream_t stream, Matrix<const Bf16> x, const NormWeights& weights, float epsilon,
                   const NormStatistics& statistics, const Quantized& to) {
  if (weights.shift != nullptr) {
    launch(stream, NormSource<true>{x, weights, statistics, epsilon}, to);
  } else {
    launch(stream, NormSource<false>{x, weights, statistics, epsilon}, to);
  }
}

}  // namespace shakedown::cuda
