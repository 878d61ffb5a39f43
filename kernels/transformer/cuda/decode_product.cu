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

constexpr int row_warps = 16, row_threads = 32 * row_warps, chunk_bytes = 32 * sizeof(uint4);

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

/// The rows of a matrix, and how blocks share them. A gated product has two rows for each output.
struct MatrixRows {
  const std::byte* weights = nullptr;
  std::size_t row_bytes = 0;
  int outputs = 0, chunks = 0, rows_each = 1, blocks = 0;  // chunks of a row; rows of an output
};

/// Operands of the kernel. The weights of the next kernel may be missing.
struct RowOperands {
  MatrixRows rows, next;
  const float* scales;  // null: 1
  int columns;
  const Bf16 *x, *gain, *bias, *residual;
  Bf16* d;
  float epsilon;
};

/// The outputs of this block, and the chunks of its warps.
struct BlockRows {
  MatrixRows all;
  int begin, outputs;

  __device__ explicit BlockRows(const MatrixRows& rows) : all(rows) {
    const auto edge = [&](unsigned block) {
      return static_cast<int>(static_cast<long long>(rows.outputs) * block / static_cast<unsigned>(rows.blocks));
    };
    begin = edge(blockIdx.x);
    outputs = edge(blockIdx.x + 1) - begin;
  }
  __device__ int chunks() const { return outputs * all.rows_each * all.chunks; }
  __device__ int first_chunk(int warp) const { return chunks() * warp / row_warps; }
  /// Returns the row of the matrix for a row of this block. Gates and their values alternate.
  __device__ int matrix_row(int row) const {
    return all.rows_each == 2 ? begin + row / 2 + row % 2 * all.outputs : begin + row;
  }
  __device__ const std::byte* row_data(int row) const {
    return all.weights + static_cast<std::size_t>(matrix_row(row)) * all.row_bytes;
  }
};

/// Requests the chunks with which a warp of the next kernel begins, so that HBM is busy until that kernel has started.
__device__ void prefetch_next(const MatrixRows& next, int most_bytes) {
  if (next.weights == nullptr || blockIdx.x >= static_cast<unsigned>(next.blocks) || threadIdx.x % 32 != 0) return;
  const BlockRows rows(next);
  const int first = rows.first_chunk(static_cast<int>(threadIdx.x) / 32);
  if (first >= rows.chunks()) return;
  const int at = first % next.chunks * chunk_bytes, left = static_cast<int>(next.row_bytes) - at;
  prefetch_to_l2(rows.row_data(first / next.chunks) + at, left < most_bytes ? left : most_bytes);
}

/// The chunks of one warp, of which `stages` are in flight.
template <class Format, int stages>
struct ChunkStream {
  const RowOperands& o;
  const BlockRows& rows;
  uint4* ring;  // of this lane
  int row, chunk, left;
  bool has_prefetched = false;

  __device__ ChunkStream(const RowOperands& operands, const BlockRows& of_block, uint4* shared, int begin, int end)
      : o(operands),
        rows(of_block),
        ring(shared + threadIdx.x / 32 * stages * 32 + threadIdx.x % 32),
        row(begin / operands.rows.chunks),
        chunk(begin % operands.rows.chunks),
        left(end - begin) {}

  /// Starts the copy of the next chunk, if there is one. Each lane copies what it reads itself.
  __device__ void request(int stage) {
    if (left > 0) {
      const int at = chunk * chunk_bytes + static_cast<int>(threadIdx.x % 32 * sizeof(uint4));
      const bool is_outside = at >= o.columns * Format::size;
      copy_async(ring + stage * 32, rows.row_data(row) + (is_outside ? 0 : at), is_outside);
      if (++chunk == o.rows.chunks) {
        chunk = 0;
        ++row;
      }
      --left;
    } else if (!has_prefetched) {
      prefetch_next(o.next, stages * chunk_bytes);
      has_prefetched = true;
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
  const int vectors = o.columns / vector_width, padded = o.rows.chunks * 32 * Format::vectors;
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
  /// Adds up the parts of a row in the order of its columns.
  __device__ float total(const BlockRows& rows, int row) const {
    float sum = begun[row];
    for (int warp = 1; warp < row_warps; ++warp) {
      const int first = rows.first_chunk(warp);
      if (first > row * rows.all.chunks && first < (row + 1) * rows.all.chunks) sum += continued[warp];
    }
    return sum;
  }
};

template <bool is_gated>
__device__ void write_outputs(const RowOperands& o, const BlockRows& rows, const RowSums& sums) {
  for (int i = static_cast<int>(threadIdx.x); i < rows.outputs; i += row_threads) {
    const auto product = [&](int row) {
      const float scale = o.scales == nullptr ? 1.0F : o.scales[rows.matrix_row(row)];
      return sums.total(rows, row) * scale;
    };
    const int output = rows.begin + i;
    float value = product(is_gated ? 2 * i : i);
    if constexpr (is_gated) value = value * sigmoid(value) * product(2 * i + 1);
    if (o.bias != nullptr) value += __bfloat162float(o.bias[output]);
    if (o.residual != nullptr) value += __bfloat162float(o.residual[output]);
    o.d[output] = __float2bfloat16(value);
  }
}

template <class Format, bool is_gated, int stages>
__global__ void __launch_bounds__(row_threads) multiply_row_kernel(RowOperands o) {
  extern __shared__ uint4 shared[];
  const int chunks = o.rows.chunks;
  uint4* const x = shared + row_warps * stages * 32;
  auto* const floats = reinterpret_cast<float*>(x + chunks * 32 * Format::vectors);
  const RowSums sums{floats + row_warps, floats};
  allow_next_kernel();
  if (threadIdx.x < row_warps) sums.continued[threadIdx.x] = 0;
  const BlockRows rows(o.rows);
  const int warp = static_cast<int>(threadIdx.x) / 32, begin = rows.first_chunk(warp), end = rows.first_chunk(warp + 1);
  ChunkStream<Format, stages> stream(o, rows, shared, begin, end);
  for (int stage = 0; stage < stages; ++stage) stream.request(stage);
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
  int row = begin / chunks, chunk = begin % chunks;
  bool is_begun = chunk == 0;
  for (int i = begin, stage = 0; i < end; ++i) {
    wait_for_copies<stages - 1>();
    Format::accumulate(stream.ring[stage * 32], x + chunk * 32 * Format::vectors + threadIdx.x % 32, sum);
    stream.request(stage);
    stage = (stage + 1) % stages;
    if (++chunk < chunks && i + 1 < end) continue;
    sums.write(sum, row, is_begun);
    sum = {};
    chunk = 0;
    is_begun = true;
    ++row;
  }
  __syncthreads();
  write_outputs<is_gated>(o, rows, sums);
}

MatrixRows rows_of(const training::DecodeWeights<Bf16>& w, bool is_gated, const DecodeGpu& gpu) {
  const bool is_plain = static_cast<bool>(w.plain);
  const auto stride = is_plain ? w.plain.stride * sizeof(Bf16) : w.quantized.values.stride;
  const auto rows_each = is_gated ? 2 : 1, outputs = static_cast<int>(w.rows()) / rows_each;
  return {.weights = is_plain ? reinterpret_cast<const std::byte*>(w.plain.data)
                              : reinterpret_cast<const std::byte*>(w.quantized.values.data),
          .row_bytes = stride,
          .outputs = outputs,
          .chunks = static_cast<int>((stride + chunk_bytes - 1) / chunk_bytes),
          .rows_each = rows_each,
          .blocks = std::min(outputs, gpu.multiprocessors)};
}

/// Where many chunks fit into shared memory, it holds only one block on a multiprocessor. With two, the blocks of a
/// kernel that overlaps with others would be unevenly distributed.
template <class Format>
void launch(cudaStream_t stream, bool is_gated, const RowOperands& operands, const DecodeGpu& gpu) {
  constexpr int many = 16, few = 4;
  const auto& all = operands.rows;
  const auto rows = static_cast<std::size_t>((all.outputs + all.blocks - 1) / all.blocks * all.rows_each);
  const auto x = static_cast<std::size_t>(all.chunks) * 32 * Format::vectors * sizeof(uint4);
  const auto bytes = [&](int stages) {
    return static_cast<std::size_t>(row_warps * stages * chunk_bytes) + x + (row_warps + rows) * sizeof(float);
  };
  const auto start = [&](auto* kernel, int stages) {
    launch_overlapping(kernel, dim3(static_cast<unsigned>(all.blocks)), row_threads, bytes(stages), stream,
                       gpu.can_overlap, operands);
  };
  if (bytes(many) <= gpu.shared_bytes) {
    return start(is_gated ? multiply_row_kernel<Format, true, many> : multiply_row_kernel<Format, false, many>, many);
  }
  start(is_gated ? multiply_row_kernel<Format, true, few> : multiply_row_kernel<Format, false, few>, few);
}

}  // namespace

void multiply_row(cudaStream_t stream, const DecodeProduct& p, const DecodeGpu& gpu) {
  const auto columns = p.w.cols();
  if (p.d.rows != 1 || columns % 16 != 0 || columns > (p.gain != nullptr ? widest_normalized : widest_decoded)) {
    throw std::invalid_argument("decode: a product of " + std::to_string(p.d.rows) + " rows of " +
                                std::to_string(columns) + " columns is not supported");
  }
  const RowOperands operands{.rows = rows_of(p.w, p.is_gated, gpu),
                             .next = rows_of(p.next, p.is_next_gated, gpu),
                             .scales = p.w.quantized.scales,
                             .columns = static_cast<int>(columns),
                             .x = p.x.data,
                             .gain = p.gain,
                             .bias = p.bias,
                             .residual = p.residual,
                             .d = p.d.data,
                             .epsilon = static_cast<float>(p.norm_eps)};
  if (p.w.plain) return launch<Bf16Format>(stream, p.is_gated, operands, gpu);
  launch<Float8Format>(stream, p.is_gated, operands, gpu);
}

}  // namespace shakedown::cuda
