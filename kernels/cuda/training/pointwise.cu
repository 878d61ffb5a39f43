// Element by element: rotary positions (Su et al. 2021), SwiGLU (Shazeer 2020), the embedding, and copies of rows.
#include <algorithm>

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/handle.hpp"
#include "kernels/cuda/training/kernels.hpp"
#include "kernels/cuda/training/vector.cuh"

namespace shakedown::cuda {

namespace {

/// One thread per eight pairs.
__global__ void rope_kernel(Rows<Bf16> x, const float* table, std::size_t count, int positions, int heads, int half,
                            float direction) {
  const int per_head = half / vector_width, per_row = heads * per_head;
  for (auto index = first_index(); index < count; index += stride()) {
    const auto row = index / per_row;
    const int inside = static_cast<int>(index % per_row), head = inside / per_head;
    const int i = inside % per_head * vector_width;
    const float* const cosine = table + row % positions * (2 * half) + i;
    const float* const sine = cosine + half;
    Bf16* const first = x.at(row) + head * 2 * half + i;
    Bf16* const second = first + half;
    auto a = load(first), b = load(second);
#pragma unroll
    for (int j = 0; j < vector_width; ++j) {
      const float s = direction * sine[j], old = a.at[j];
      a.at[j] = old * cosine[j] - b.at[j] * s;
      b.at[j] = b.at[j] * cosine[j] + old * s;
    }
    store(first, a);
    store(second, b);
  }
}

__device__ float sigmoid(float x) { return 1.0F / (1.0F + __expf(-x)); }

__global__ void swiglu_kernel(Rows<const Bf16> gate_up, Rows<Bf16> h, int columns) {
  const int c = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * vector_width;
  if (c >= columns) return;
  const auto* const from = gate_up.at(blockIdx.y) + c;
  const auto gate = load(from), up = load(from + columns);
  Eight out;
#pragma unroll
  for (int i = 0; i < vector_width; ++i) {
    const float silu = gate.at[i] * sigmoid(gate.at[i]);
    out.at[i] = silu * up.at[i];
  }
  store(h.at(blockIdx.y) + c, out);
}

__global__ void swiglu_backward_kernel(Rows<Bf16> gate_up, Rows<Bf16> dh, bool emit_h, int columns) {
  const int c = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * vector_width;
  if (c >= columns) return;
  auto* const at = gate_up.at(blockIdx.y) + c;
  auto* const gradients = dh.at(blockIdx.y) + c;
  const auto gate = load(at), up = load(at + columns), gradient = load(gradients);
  Eight dgate, dup, h;
#pragma unroll
  for (int i = 0; i < vector_width; ++i) {
    const float s = sigmoid(gate.at[i]), silu = gate.at[i] * s;
    h.at[i] = silu * up.at[i];
    dup.at[i] = gradient.at[i] * silu;
    dgate.at[i] = gradient.at[i] * up.at[i] * (s + silu * (1.0F - s));
  }
  store(at, dgate);
  store(at + columns, dup);
  if (emit_h) store(gradients, h);
}

__global__ void embed_kernel(Rows<const Bf16> table, const int* tokens, Rows<Bf16> x, int columns) {
  const auto* const from = table.at(static_cast<std::size_t>(tokens[blockIdx.x]));
  auto* const to = x.at(blockIdx.x);
  for (int c = static_cast<int>(threadIdx.x) * vector_width; c < columns; c += static_cast<int>(block) * vector_width) {
    *reinterpret_cast<uint4*>(to + c) = *reinterpret_cast<const uint4*>(from + c);
  }
}

__global__ void copy_rows_kernel(Rows<const Bf16> from, Rows<Bf16> to, std::size_t count, std::size_t vectors) {
  for (auto i = first_index(); i < count; i += stride()) {
    const auto row = i / vectors, c = i % vectors * vector_width;
    *reinterpret_cast<uint4*>(to.at(row) + c) = *reinterpret_cast<const uint4*>(from.at(row) + c);
  }
}

/// Calls launch(grid, first row, rows): rows along y, of which a grid has at most 65,535.
template <class Launch>
void launch_over_rows(std::size_t rows, std::size_t columns, const Launch& launch) {
  constexpr std::size_t most = 65535;
  const auto across = static_cast<unsigned>((columns / vector_width + block - 1) / block);
  for (std::size_t first = 0; first < rows; first += most) {
    const auto count = std::min(most, rows - first);
    launch(dim3(across, static_cast<unsigned>(count)), first, count);
  }
  check(cudaGetLastError());
}

}  // namespace

void rope(cudaStream_t stream, Matrix<Bf16> qkv, const float* table, training::AttentionShape shape,
          training::Rotation rotation) {
  const auto heads = shape.heads + shape.kv_heads, half = shape.head_dim / 2;
  const auto count = qkv.rows * heads * half / vector_width;
  rope_kernel<<<blocks_for(count), block, 0, stream>>>(qkv, table, count, static_cast<int>(shape.seq),
                                                       static_cast<int>(heads), static_cast<int>(half),
                                                       rotation == training::Rotation::forward ? 1.0F : -1.0F);
  check(cudaGetLastError());
}

void swiglu(cudaStream_t stream, Matrix<const Bf16> gate_up, Matrix<Bf16> h) {
  launch_over_rows(h.rows, h.cols, [&](dim3 grid, std::size_t first, std::size_t count) {
    swiglu_kernel<<<grid, block, 0, stream>>>(gate_up.row_range(first, count), h.row_range(first, count),
                                              static_cast<int>(h.cols));
  });
}

void swiglu_backward(cudaStream_t stream, Matrix<Bf16> gate_up, Matrix<Bf16> dh, bool emit_h) {
  launch_over_rows(dh.rows, dh.cols, [&](dim3 grid, std::size_t first, std::size_t count) {
    swiglu_backward_kernel<<<grid, block, 0, stream>>>(gate_up.row_range(first, count), dh.row_range(first, count),
                                                       emit_h, static_cast<int>(dh.cols));
  });
}

void embed(cudaStream_t stream, Matrix<const Bf16> table, const int* tokens, Matrix<Bf16> x) {
  embed_kernel<<<static_cast<unsigned>(x.rows), block, 0, stream>>>(table, tokens, x, static_cast<int>(x.cols));
  check(cudaGetLastError());
}

void copy_rows(cudaStream_t stream, Matrix<const Bf16> from, Matrix<Bf16> to) {
  const auto vectors = to.cols / vector_width, count = to.rows * vectors;
  copy_rows_kernel<<<blocks_for(count), block, 0, stream>>>(from, to, count, vectors);
  check(cudaGetLastError());
}

}  // namespace shakedown::cuda
