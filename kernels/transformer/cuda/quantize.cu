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

constexpr int vectors_each = 4, most_threads = 1024;  // of a thread; of a block
static_assert(widest_quantized == std::size_t{vectors_each} * most_threads * vector_width);

/// The part of a row in one thread: vector v is at column (v threads + thread) 8, if the row has it.
struct RowPart {
  uint4 packed[vectors_each];

  /// Calls body(v, column) for the vectors that exist in the row.
  template <class Body>
  static __device__ void each(int columns, const Body& body) {
#pragma unroll
    for (int v = 0; v < vectors_each; ++v) {
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

struct SwigluSource {
  Rows<const Bf16> gate_up;
  __device__ void read(std::size_t row, int columns, RowPart& part) const {
    const auto* const from = gate_up.at(row);
    RowPart::each(columns,
                  [&](int v, int c) { part.packed[v] = pack(swiglu_of(load(from + c), load(from + columns + c))); });
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

__device__ float largest_size(const uint4& packed) {
  float largest = 0;
  for (const float value : unpack(packed).at) largest = fmaxf(largest, isfinite(value) ? fabsf(value) : 0.0F);
  return largest;
}

/// Returns two values times `inverse` as 8-bit floats. Infinity becomes NaN.
__device__ unsigned two_float8(float first, float second, float inverse, Float8 type) {
  const auto scaled = [inverse](float value) { return isfinite(value) ? value * inverse : NAN; };
  const float2 both{scaled(first), scaled(second)};
  return type == Float8::e4m3 ? __nv_cvt_float2_to_fp8x2(both, __NV_SATFINITE, __NV_E4M3)
                              : __nv_cvt_float2_to_fp8x2(both, __NV_SATFINITE, __NV_E5M2);
}

__device__ void store_float8(std::uint8_t* to, const uint4& packed, float inverse, Float8 type) {
  const Eight x = unpack(packed);
  const auto four = [&](int i) {
    return two_float8(x.at[i], x.at[i + 1], inverse, type) | two_float8(x.at[i + 2], x.at[i + 3], inverse, type) << 16;
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
__global__ void __launch_bounds__(most_threads) quantize_kernel(Source source, Target target, int columns) {
  RowPart part;
  source.read(blockIdx.x, columns, part);
  target.write(blockIdx.x, columns, part);
}

template <class Source>
void launch(cudaStream_t stream, const Source& source, const Quantized& to) {
  const auto columns = to.values.cols;
  const std::size_t divisor = to.row_scales != nullptr ? vector_width : training::scale_block;
  if (columns > widest_quantized || columns % divisor != 0) {
    throw std::invalid_argument("rows of " + std::to_string(columns) + " columns cannot be quantized: at most " +
                                std::to_string(widest_quantized) + ", divisible by " + std::to_string(divisor));
  }
  constexpr std::size_t each = std::size_t{vectors_each} * vector_width;
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

void quantize_gelu(cudaStream_t stream, Matrix<const Bf16> u, const Quantized& to) {
  launch(stream, GeluSource{u}, to);
}

void quantize_swiglu(cudaStream_t stream, Matrix<const Bf16> gate_up, const Quantized& to) {
  launch(stream, SwigluSource{gate_up}, to);
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
