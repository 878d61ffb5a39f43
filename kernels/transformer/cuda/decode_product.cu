// The product of one row with a matrix, limited by the rate at which the matrix is read. A block computes a range of
// outputs. The rows of the matrix for these outputs form one sequence of chunks, divided evenly among the warps. Each
// warp keeps several chunks in flight to its own part of shared memory, also while it waits for the previous kernel.
#include <cuda_fp8.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/transformer/cuda/activation.cuh"
#include "kernels/transformer/cuda/decode.hpp"
#include "kernels/transformer/cuda/decode_overlap.cuh"
#include "kernels/transformer/cuda/vector.cuh"

namespace shakedown::cuda {

namespace {

constexpr int row_warps = 16, row_threads = 32 * row_warps, chunk_stages = 8, chunk_bytes = 32 * sizeof(uint4);

/// Two bf16 as floats.
__device__ float2 two_of(std::uint32_t word) {
  return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000U)};
}

struct Bf16Format {
  static constexpr int size = 2, vectors = 1;  // bytes of a weight; vectors of X for 16 bytes of weights

  static __device__ void accumulate(const uint4& weights, const uint4* x, float2& sum) {
    const std::uint32_t w[4] = {weights.x, weights.y, weights.z, weights.w};
    const uint4 packed = *x;
    const std::uint32_t values[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 a = two_of(w[i]), b = two_of(values[i]);
      sum.x = fmaf(a.x, b.x, sum.x);
      sum.y = fmaf(a.y, b.y, sum.y);
    }
  }
};

struct Float8Format {
  static constexpr int size = 1, vectors = 2;

  static __device__ void accumulate(const uint4& weights, const uint4* x, float2& sum) {
    const std::uint32_t w[4] = {weights.x, weights.y, weights.z, weights.w};
    const uint4 low = x[0], high = x[32];
    const std::uint32_t values[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const auto pair = static_cast<__nv_fp8x2_storage_t>(w[i / 2] >> (i % 2 * 16));
      const float2 a = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(pair, __NV_E4M3))), b = two_of(values[i]);
      sum.x = fmaf(a.x, b.x, sum.x);
      sum.y = fmaf(a.y, b.y, sum.y);
    }
  }
};

/// Operands of the kernel. `outputs` is the number of values of D; a gated product has two rows for each.
struct RowOperands {
  const std::byte* weights;
  const float* scales;  // null: 1
  std::size_t row_bytes;
  int outputs, columns, chunks;  // chunks of a row
  const Bf16 *x, *gain, *bias, *residual;
  Bf16* d;
  float epsilon;
};

/// The outputs of this block, and the rows of the matrix for them.
template <bool is_gated>
struct BlockRows {
  static constexpr int rows_each = is_gated ? 2 : 1;
  int begin, outputs;

  __device__ explicit BlockRows(int all) {
    const auto edge = [all](unsigned block) {
      return static_cast<int>(static_cast<long long>(all) * block / gridDim.x);
    };
    begin = edge(blockIdx.x);
    outputs = edge(blockIdx.x + 1) - begin;
  }
  __device__ int rows() const { return outputs * rows_each; }
  /// Returns the row of the matrix for a row of this block. Gates and their values alternate.
  __device__ int matrix_row(int row, int all) const { return is_gated ? begin + row / 2 + row % 2 * all : begin + row; }
};

/// The chunks of one warp.
template <class Format, bool is_gated>
struct ChunkStream {
  const RowOperands& o;
  BlockRows<is_gated> rows;
  uint4* ring;  // of this lane
  int row, chunk, left;

  __device__ ChunkStream(const RowOperands& operands, const BlockRows<is_gated>& of_block, uint4* shared, int begin,
                         int end)
      : o(operands),
        rows(of_block),
        ring(shared + threadIdx.x / 32 * chunk_stages * 32 + threadIdx.x % 32),
        row(begin / operands.chunks),
        chunk(begin % operands.chunks),
        left(end - begin) {}

  /// Starts the copy of the next chunk, if there is one. Each lane copies what it reads itself.
  __device__ void request(int stage) {
    if (left > 0) {
      const int at = chunk * chunk_bytes + static_cast<int>(threadIdx.x % 32 * sizeof(uint4));
      const bool is_outside = at >= o.columns * Format::size;
      const auto* const begin = o.weights + static_cast<std::size_t>(rows.matrix_row(row, o.outputs)) * o.row_bytes;
      copy_async(ring + stage * 32, begin + (is_outside ? 0 : at), is_outside);
      if (++chunk == o.chunks) {
        chunk = 0;
        ++row;
      }
      --left;
    }
    commit_copies();
  }
};

/// Returns the place in shared memory of vector v of X: lanes read neighbouring vectors.
template <class Format>
__device__ int place_of(int v) {
  constexpr int each = 32 * Format::vectors;
  return v / each * each + v % Format::vectors * 32 + v % each / Format::vectors;
}

/// Writes X to shared memory, normalized if there is a gain, with zeros up to a whole chunk.
template <class Format>
__device__ void load_row(const RowOperands& o, const uint4* gains, uint4* to) {
  constexpr int most = widest_normalized / vector_width / row_threads;
  const int vectors = o.columns / vector_width, padded = o.chunks * 32 * Format::vectors;
  const auto* const from = reinterpret_cast<const uint4*>(o.x);
  if (o.gain == nullptr) {
    for (int v = static_cast<int>(threadIdx.x); v < padded; v += row_threads) {
      to[place_of<Format>(v)] = v < vectors ? from[v] : uint4{};
    }
    return;
  }
  uint4 packed[most];
  float squares = 0;
#pragma unroll
  for (int i = 0; i < most; ++i) {
    const int v = i * row_threads + static_cast<int>(threadIdx.x);
    packed[i] = v < vectors ? from[v] : uint4{};
    for (const float value : unpack(packed[i]).at) squares += value * value;
  }
  const float rstd = rsqrtf(sum_block(squares) / static_cast<float>(o.columns) + o.epsilon);
#pragma unroll
  for (int i = 0; i < most; ++i) {
    const int v = i * row_threads + static_cast<int>(threadIdx.x);
    if (v >= padded) break;
    Eight n = unpack(packed[i]);
    const Eight gain = unpack(gains[i]);
    for (int j = 0; j < vector_width; ++j) n.at[j] = n.at[j] * rstd * gain.at[j];
    to[place_of<Format>(v)] = pack(n);
  }
}

/// The sums of the rows of a block. The warp that reads the beginning of a row writes `begun`. Each warp whose chunks
/// begin inside a row writes the sum of its part of this row to `continued`, which is 0 for a warp without chunks.
struct RowSums {
  float *begun, *continued;

  __device__ void write(float2 sum, int row, bool is_begun) const {
    const float total = sum_warp(sum.x + sum.y);
    if (threadIdx.x % 32 != 0) return;
    if (is_begun) {
      begun[row] = total;
    } else {
      continued[threadIdx.x / 32] = total;
    }
  }
  /// Adds up the parts of a row in the order of its columns. `all` is the number of chunks of the block.
  __device__ float total(int row, int chunks, int all) const {
    float sum = begun[row];
    for (int warp = 1; warp < row_warps; ++warp) {
      const int first = all * warp / row_warps;
      if (first > row * chunks && first < (row + 1) * chunks) sum += continued[warp];
    }
    return sum;
  }
};

template <bool is_gated>
__device__ void write_outputs(const RowOperands& o, const BlockRows<is_gated>& rows, const RowSums& sums, int all) {
  for (int i = static_cast<int>(threadIdx.x); i < rows.outputs; i += row_threads) {
    const auto product = [&](int row) {
      const float scale = o.scales == nullptr ? 1.0F : o.scales[rows.matrix_row(row, o.outputs)];
      return sums.total(row, o.chunks, all) * scale;
    };
    const int output = rows.begin + i;
    float value = product(rows.rows_each * i);
    if constexpr (is_gated) value = value * sigmoid(value) * product(2 * i + 1);
    if (o.bias != nullptr) value += __bfloat162float(o.bias[output]);
    if (o.residual != nullptr) value += __bfloat162float(o.residual[output]);
    o.d[output] = __float2bfloat16(value);
  }
}

template <class Format, bool is_gated>
__global__ void __launch_bounds__(row_threads, 2) multiply_row_kernel(RowOperands o) {
  extern __shared__ uint4 shared[];
  uint4* const x = shared + row_warps * chunk_stages * 32;
  const RowSums sums{reinterpret_cast<float*>(x + o.chunks * 32 * Format::vectors) + row_warps,
                     reinterpret_cast<float*>(x + o.chunks * 32 * Format::vectors)};
  allow_next_kernel();
  if (threadIdx.x < row_warps) sums.continued[threadIdx.x] = 0;
  const BlockRows<is_gated> rows(o.outputs);
  const int all = rows.rows() * o.chunks, warp = static_cast<int>(threadIdx.x) / 32;
  const int begin = all * warp / row_warps, end = all * (warp + 1) / row_warps;
  ChunkStream<Format, is_gated> stream(o, rows, shared, begin, end);
  for (int stage = 0; stage < chunk_stages; ++stage) stream.request(stage);
  uint4 gains[widest_normalized / vector_width / row_threads] = {};
  if (o.gain != nullptr) {
#pragma unroll
    for (int i = 0; i < static_cast<int>(std::size(gains)); ++i) {
      const int v = i * row_threads + static_cast<int>(threadIdx.x);
      if (v < o.columns / vector_width) gains[i] = reinterpret_cast<const uint4*>(o.gain)[v];
    }
  }
  wait_for_previous_kernel();
  load_row<Format>(o, gains, x);
  __syncthreads();

  float2 sum{};
  int row = begin / o.chunks, chunk = begin % o.chunks;
  bool is_begun = chunk == 0;
  for (int i = begin, stage = 0; i < end; ++i) {
    wait_for_copies<chunk_stages - 1>();
    Format::accumulate(stream.ring[stage * 32], x + chunk * 32 * Format::vectors + threadIdx.x % 32, sum);
    stream.request(stage);
    stage = (stage + 1) % chunk_stages;
    if (++chunk < o.chunks && i + 1 < end) continue;
    sums.write(sum, row, is_begun);
    sum = {};
    chunk = 0;
    is_begun = true;
    ++row;
  }
  __syncthreads();
  write_outputs<is_gated>(o, rows, sums, all);
}

template <class Format>
void launch(cudaStream_t stream, const DecodeProduct& p, const RowOperands& operands, const DecodeGpu& gpu) {
  const auto blocks = std::min(operands.outputs, gpu.multiprocessors);
  const auto rows = static_cast<std::size_t>((operands.outputs + blocks - 1) / blocks * (p.is_gated ? 2 : 1));
  const auto x = static_cast<std::size_t>(operands.chunks) * 32 * Format::vectors * sizeof(uint4);
  const auto bytes = std::size_t{row_warps} * chunk_stages * chunk_bytes + x + (row_warps + rows) * sizeof(float);
  launch_overlapping(p.is_gated ? multiply_row_kernel<Format, true> : multiply_row_kernel<Format, false>,
                     dim3(static_cast<unsigned>(blocks)), row_threads, bytes, stream, gpu.can_overlap, operands);
}

}  // namespace

void multiply_row(cudaStream_t stream, const DecodeProduct& p, const DecodeGpu& gpu) {
  const auto columns = p.w.cols();
  if (p.d.rows != 1 || columns % 16 != 0 || columns > (p.gain != nullptr ? widest_normalized : widest_decoded)) {
    throw std::invalid_argument("decode: a product of " + std::to_string(p.d.rows) + " rows of " +
                                std::to_string(columns) + " columns is not supported");
  }
  const auto chunks = [columns](std::size_t size) {
    return static_cast<int>((columns * size + chunk_bytes - 1) / chunk_bytes);
  };
  RowOperands operands{.outputs = static_cast<int>(p.d.cols),
                       .columns = static_cast<int>(columns),
                       .x = p.x.data,
                       .gain = p.gain,
                       .bias = p.bias,
                       .residual = p.residual,
                       .d = p.d.data,
                       .epsilon = static_cast<float>(p.norm_eps)};
  if (p.w.plain) {
    operands.weights = reinterpret_cast<const std::byte*>(p.w.plain.data);
    operands.row_bytes = p.w.plain.stride * sizeof(Bf16);
    operands.chunks = chunks(sizeof(Bf16));
    return launch<Bf16Format>(stream, p, operands, gpu);
  }
  operands.weights = reinterpret_cast<const std::byte*>(p.w.quantized.values.data);
  operands.scales = p.w.quantized.scales;
  operands.row_bytes = p.w.quantized.values.stride;
  operands.chunks = chunks(1);
  launch<Float8Format>(stream, p, operands, gpu);
}

}  // namespace shakedown::cuda
