// The product of one row with a matrix, limited by the rate at which the matrix is read. A block computes a range of
// outputs. Some warps share each row of the matrix: a warp always has the same columns, so that a lane keeps its part
// of X in registers, and several groups of such warps have different rows. Each warp keeps several rows in flight to
// its own part of shared memory, also while it waits for the previous kernel. These rows are then consumed faster than
// HBM could deliver them, which makes up for the wait.
#include <cuda_fp8.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include "kernels/transformer/cuda/activation.cuh"
#include "kernels/transformer/cuda/decode_kernels.hpp"
#include "kernels/transformer/cuda/decode_overlap.cuh"
#include "kernels/transformer/cuda/vector.cuh"

namespace shakedown::cuda {

namespace {

constexpr int row_warps = 16, row_threads = 32 * row_warps, chunk_bytes = 32 * sizeof(uint4);

/// Two bf16 as floats.
__device__ float2 two_of(std::uint32_t word) {
  return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000U)};
}

/// `columns` is the number of weights in 16 bytes. `lane_vectors` are the numbers of vectors of a lane for which there
/// are kernels, the preferred one last. With more, X would not fit into registers.
struct Bf16Format {
  static constexpr int columns = 8;
  static constexpr std::array lane_vectors = {1, 7, 5, 4};

  static __device__ float2 pair(const std::uint32_t (&words)[4], int i) { return two_of(words[i]); }
};

struct Float8Format {
  static constexpr int columns = 16;
  static constexpr std::array lane_vectors = {1, 4, 2};

  static __device__ float2 pair(const std::uint32_t (&words)[4], int i) {
    const auto packed = static_cast<__nv_fp8x2_storage_t>(words[i / 2] >> (i % 2 * 16));
    return __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(packed, __NV_E4M3)));
  }
};

/// The rows of a matrix, and how blocks and warps share them. A gated product has two rows for each output.
struct MatrixRows {
  const std::byte* weights = nullptr;
  std::size_t row_bytes = 0;
  int outputs = 0, rows_each = 1, blocks = 0;
  int vectors = 1, slices = 1;  // vectors of 16 bytes that a lane has of a row; warps that share a row

  __host__ __device__ int slice_bytes() const { return vectors * chunk_bytes; }
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

/// The outputs of this block.
struct BlockRows {
  MatrixRows all;
  int begin, outputs;

  __device__ explicit BlockRows(const MatrixRows& rows) : all(rows) {
    const auto edge = [&](unsigned block) {
      return static_cast<int>(static_cast<unsigned>(rows.outputs) * block / static_cast<unsigned>(rows.blocks));
    };
    begin = edge(blockIdx.x);
    outputs = edge(blockIdx.x + 1) - begin;
  }
  __device__ int rows() const { return outputs * all.rows_each; }
  /// Returns the row of the matrix for a row of this block. Gates and their values alternate.
  __device__ int matrix_row(int row) const {
    return all.rows_each == 2 ? begin + row / 2 + row % 2 * all.outputs : begin + row;
  }
  __device__ const std::byte* row_data(int row) const {
    return all.weights + static_cast<std::size_t>(matrix_row(row)) * all.row_bytes;
  }
};

/// The rows of a block that this warp has: `first`, and every `step`-th after it.
struct WarpRows {
  int slice, first, step;

  __device__ explicit WarpRows(const BlockRows& rows) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    step = row_warps / rows.all.slices;
    slice = warp % rows.all.slices;
    first = warp / rows.all.slices < step ? warp / rows.all.slices : rows.rows();  // else it has none
  }
};

/// Returns the number of rows that a warp has in flight.
__host__ __device__ constexpr int rows_ahead(int vectors, int chunks) {
  const int rows = (chunks + vectors / 2) / vectors;
  return rows < 1 ? 1 : rows;
}

/// Requests the rows with which a warp of the next kernel begins, so that HBM is busy until that kernel has started.
__device__ void prefetch_next(const MatrixRows& next, int chunks) {
  if (next.weights == nullptr || blockIdx.x >= static_cast<unsigned>(next.blocks)) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const BlockRows rows(next);
  const WarpRows warp(rows);
  const int row = warp.first + lane * warp.step, at = warp.slice * next.slice_bytes();
  const int left = static_cast<int>(next.row_bytes) - at;
  if (lane >= rows_ahead(next.vectors, chunks) || row >= rows.rows() || left <= 0) return;
  prefetch_to_l2(rows.row_data(row) + at, left < next.slice_bytes() ? left : next.slice_bytes());
}

/// This warp's part of the rows of its block. A lane copies what it reads itself.
template <int vectors, int ahead>
struct RowStream {
  const BlockRows& rows;
  uint4* ring;  // of this lane: `ahead` rows
  int at;       // offset of the lane's first vector in a row
  int inside;   // the number of its vectors that are inside the row

  __device__ RowStream(const BlockRows& of_block, const WarpRows& warp, uint4* shared) : rows(of_block) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    ring = shared + threadIdx.x / 32 * (ahead * vectors * 32) + lane;
    at = warp.slice * (vectors * chunk_bytes) + lane * static_cast<int>(sizeof(uint4));
    const int left = static_cast<int>(rows.all.row_bytes) - at;
    inside = left <= 0 ? 0 : (left + chunk_bytes - 1) / chunk_bytes;
  }
  /// Starts the copy of vector v of a row into this place of the ring. Vectors outside the row become 0.
  __device__ void request(const std::byte* row, int place, int v) const {
    const bool is_outside = v >= inside;
    copy_async(ring + (place * vectors + v) * 32, row + (is_outside ? 0 : at + v * chunk_bytes), is_outside);
  }
  __device__ const uint4& vector(int place, int v) const { return ring[(place * vectors + v) * 32]; }
};

/// The values of X, or gains, for the columns that a lane has, as packed bf16. Zeros outside the row.
template <class Format, int vectors>
struct LaneColumns {
  static constexpr int each = Format::columns / vector_width;  // vectors of bf16 for one vector of weights
  uint4 at[vectors * each];

  __device__ void load(const Bf16* from, int first, int inside) {
#pragma unroll
    for (int i = 0; i < vectors * each; ++i) {
      const int v = first + i / each * 32;
      at[i] = i / each < inside ? reinterpret_cast<const uint4*>(from)[v * each + i % each] : uint4{};
    }
  }
};

/// X as floats, normalized and rounded if there is a gain.
template <class Format, int vectors>
struct LaneInput {
  using Columns = LaneColumns<Format, vectors>;
  float at[vectors][Format::columns];

  /// `parts` has one float of shared memory for each warp.
  __device__ LaneInput(const RowOperands& o, const Columns& x, const Columns& gains, const WarpRows& warp,
                       float* parts) {
    unpack_all(x);
    if (o.gain == nullptr) return;
    float squares = 0;
#pragma unroll
    for (int i = 0; i < vectors * Format::columns; ++i) squares = fmaf(value(i), value(i), squares);
    squares = sum_warp(squares);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = squares;
    __syncthreads();
    const int first = static_cast<int>(threadIdx.x) / 32 - warp.slice;
    float sum = 0;
    for (int slice = 0; slice < o.rows.slices; ++slice) {
      if (first + slice < row_warps) sum += parts[first + slice];
    }
    const float rstd = rsqrtf(sum / static_cast<float>(o.columns) + o.epsilon);
#pragma unroll
    for (int i = 0; i < vectors * Columns::each; ++i) {
      const Eight gain = unpack(gains.at[i]);
#pragma unroll
      for (int j = 0; j < vector_width; ++j) {
        float& x = value(i * vector_width + j);
        x = __bfloat162float(__float2bfloat16(x * rstd * gain.at[j]));
      }
    }
  }

 private:
  __device__ float& value(int i) { return at[i / Format::columns][i % Format::columns]; }
  __device__ void unpack_all(const Columns& x) {
#pragma unroll
    for (int i = 0; i < vectors * Columns::each; ++i) {
      const Eight values = unpack(x.at[i]);
#pragma unroll
      for (int j = 0; j < vector_width; ++j) value(i * vector_width + j) = values.at[j];
    }
  }
};

template <class Format>
__device__ void accumulate(const uint4& weights, const float (&x)[Format::columns], float2& sum) {
  const std::uint32_t words[4] = {weights.x, weights.y, weights.z, weights.w};
#pragma unroll
  for (int i = 0; i < Format::columns / 2; ++i) {
    const float2 pair = Format::pair(words, i);
    sum.x = fmaf(pair.x, x[2 * i], sum.x);
    sum.y = fmaf(pair.y, x[2 * i + 1], sum.y);
  }
}

/// What a block needs to finish its outputs, in shared memory: sums[row * slices + slice], the factor of each row, and
/// what is added to each output.
struct BlockResults {
  float *sums, *factors, *addends;

  __device__ BlockResults(float* shared, const BlockRows& rows)
      : sums(shared), factors(sums + rows.rows() * rows.all.slices), addends(factors + rows.rows()) {}
  static std::size_t floats(const MatrixRows& all) {
    const auto outputs = static_cast<std::size_t>((all.outputs + all.blocks - 1) / all.blocks);
    const auto rows = outputs * static_cast<std::size_t>(all.rows_each);
    return rows * static_cast<std::size_t>(all.slices) + rows + outputs;
  }

  __device__ void load_addends(const RowOperands& o, const BlockRows& rows) const {
    for (int i = static_cast<int>(threadIdx.x); i < rows.outputs; i += row_threads) {
      const int output = rows.begin + i;
      const float bias = o.bias == nullptr ? 0.0F : __bfloat162float(o.bias[output]);
      addends[i] = bias + (o.residual == nullptr ? 0.0F : __bfloat162float(o.residual[output]));
    }
    if (o.scales == nullptr) return;
    for (int row = static_cast<int>(threadIdx.x); row < rows.rows(); row += row_threads) {
      factors[row] = o.scales[rows.matrix_row(row)];
    }
  }
  /// Adds up the parts of a row in the order of its columns.
  __device__ float product(const RowOperands& o, int row) const {
    float sum = 0;
    for (int slice = 0; slice < o.rows.slices; ++slice) sum += sums[row * o.rows.slices + slice];
    return o.scales == nullptr ? sum : sum * factors[row];
  }
  __device__ void write(const RowOperands& o, const BlockRows& rows) const {
    for (int i = static_cast<int>(threadIdx.x); i < rows.outputs; i += row_threads) {
      float value = product(o, i * o.rows.rows_each);
      if (o.rows.rows_each == 2) value = value * sigmoid(value) * product(o, 2 * i + 1);
      o.d[rows.begin + i] = __float2bfloat16(value + addends[i]);
    }
  }
};

template <class Format, int vectors, int chunks>
__global__ void __launch_bounds__(row_threads) multiply_row_kernel(RowOperands o) {
  extern __shared__ uint4 shared[];
  constexpr int ahead = rows_ahead(vectors, chunks);
  auto* const parts = reinterpret_cast<float*>(shared + row_warps * ahead * vectors * 32);
  allow_next_kernel();
  const BlockRows rows(o.rows);
  const WarpRows warp(rows);
  const RowStream<vectors, ahead> stream(rows, warp, shared);
  const BlockResults results(parts + row_warps, rows);
  const int count = rows.rows(), lane = static_cast<int>(threadIdx.x) % 32;
  for (int place = 0; place < ahead; ++place) {
    const int row = warp.first + place * warp.step;
    const std::byte* const from = row < count ? rows.row_data(row) : nullptr;
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
      if (from != nullptr) stream.request(from, place, v);
      commit_copies();
    }
  }
  if (warp.first + ahead * warp.step >= count) prefetch_next(o.next, chunks);
  const int first = warp.slice * vectors * 32 + lane;
  LaneColumns<Format, vectors> gains, x;
  if (o.gain != nullptr) gains.load(o.gain, first, stream.inside);
  wait_for_previous_kernel();
  x.load(o.x, first, stream.inside);
  results.load_addends(o, rows);
  const LaneInput<Format, vectors> input(o, x, gains, warp, parts);

  for (int row = warp.first, place = 0; row < count; row += warp.step) {
    const int after = row + ahead * warp.step;
    const std::byte* const from = after < count ? rows.row_data(after) : nullptr;
    float2 sum{};
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
      wait_for_copies<ahead * vectors - 1>();
      accumulate<Format>(stream.vector(place, v), input.at[v], sum);
      if (from != nullptr) stream.request(from, place, v);
      commit_copies();
    }
    if (from != nullptr && after + warp.step >= count) prefetch_next(o.next, chunks);
    place = place + 1 == ahead ? 0 : place + 1;
    const float total = sum_warp(sum.x + sum.y);
    if (lane == 0) results.sums[row * o.rows.slices + warp.slice] = total;
  }
  __syncthreads();
  results.write(o, rows);
}

/// Returns the rows, divided so that as many lanes as possible have a part of a row.
template <class Format>
MatrixRows divided(MatrixRows rows) {
  const int of_row = static_cast<int>(rows.row_bytes / sizeof(uint4));
  int most_used = 0;
  for (const int vectors : Format::lane_vectors) {
    const int slices = std::max(1, (of_row + 32 * vectors - 1) / (32 * vectors));
    if (slices > row_warps) continue;
    const int used = row_warps / slices * of_row * 1000 / (row_threads * vectors);
    if (used < most_used) continue;
    most_used = used;
    rows.vectors = vectors;
    rows.slices = slices;
  }
  return rows;
}

MatrixRows rows_of(const training::DecodeWeights<Bf16>& w, bool is_gated, const DecodeGpu& gpu) {
  const bool is_plain = static_cast<bool>(w.plain);
  const auto rows_each = is_gated ? 2 : 1, outputs = static_cast<int>(w.rows()) / rows_each;
  const MatrixRows rows{.weights = is_plain ? reinterpret_cast<const std::byte*>(w.plain.data)
                                            : reinterpret_cast<const std::byte*>(w.quantized.values.data),
                        .row_bytes = is_plain ? w.plain.stride * sizeof(Bf16) : w.quantized.values.stride,
                        .outputs = outputs,
                        .rows_each = rows_each,
                        .blocks = std::min(outputs, gpu.multiprocessors)};
  return is_plain ? divided<Bf16Format>(rows) : divided<Float8Format>(rows);
}

/// Where many chunks fit into shared memory, it holds only one block on a multiprocessor. With two, the blocks of a
/// kernel that overlaps with others would be unevenly distributed.
template <class Format, int vectors>
void launch(cudaStream_t stream, const RowOperands& operands, const DecodeGpu& gpu) {
  constexpr int many_chunks = 16, few_chunks = 8;
  const auto bytes = [&](int chunks) {
    return static_cast<std::size_t>(row_warps * rows_ahead(vectors, chunks) * vectors * chunk_bytes) +
           (row_warps + BlockResults::floats(operands.rows)) * sizeof(float);
  };
  const auto start = [&](auto* kernel, int chunks) {
    launch_overlapping(kernel, dim3(static_cast<unsigned>(operands.rows.blocks)), row_threads, bytes(chunks), stream,
                       gpu.can_overlap, operands);
  };
  if (bytes(many_chunks) <= gpu.shared_bytes)
    return start(multiply_row_kernel<Format, vectors, many_chunks>, many_chunks);
  start(multiply_row_kernel<Format, vectors, few_chunks>, few_chunks);
}

/// Launches the kernel for this number of vectors of a lane.
template <class Format, std::size_t at = 0>
void launch_divided(cudaStream_t stream, const RowOperands& operands, const DecodeGpu& gpu) {
  if constexpr (at < Format::lane_vectors.size()) {
    constexpr int vectors = Format::lane_vectors[at];
    if (operands.rows.vectors == vectors) return launch<Format, vectors>(stream, operands, gpu);
    launch_divided<Format, at + 1>(stream, operands, gpu);
  }
}

}  // namespace

void multiply_row(cudaStream_t stream, const DecodeProduct& p, const DecodeGpu& gpu) {
  const auto columns = p.w.cols();
  if (p.d.rows != 1 || columns % 16 != 0 || columns > max_decoded_columns) {
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
  if (p.w.plain) return launch_divided<Bf16Format>(stream, operands, gpu);
  launch_divided<Float8Format>(stream, operands, gpu);
}

}  // namespace shakedown::cuda
