// Element-wise kernels: rotary positions (Su et al. 2021), SwiGLU, GELU, the embedding, and copies of rows.
#include <algorithm>

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/handle.hpp"
#include "kernels/transformer/cuda/activation.cuh"
#include "kernels/transformer/cuda/kernels.hpp"

namespace shakedown::cuda {

namespace {

/// One thread processes eight pairs.
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

__global__ void swiglu_kernel(Rows<const Bf16> gate_up, Rows<Bf16> h, int columns) {
  const int c = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * vector_width;
  if (c >= columns) return;
  const auto* const from = gate_up.at(blockIdx.y) + c;
  store(h.at(blockIdx.y) + c, swiglu_of(load(from), load(from + columns)));
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

__global__ void gelu_kernel(Rows<const Bf16> u, Rows<Bf16> h, int columns) {
  const int c = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * vector_width;
  if (c >= columns) return;
  store(h.at(blockIdx.y) + c, gelu_of(load(u.at(blockIdx.y) + c)));
}

__global__ void gelu_backward_kernel(Rows<Bf16> u, Rows<Bf16> dh, bool emit_h, int columns) {
  const int c = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * vector_width;
  if (c >= columns) return;
  auto* const at = u.at(blockIdx.y) + c;
  auto* const gradients = dh.at(blockIdx.y) + c;
  const auto in = load(at), gradient = load(gradients);
  Eight du, h;
#pragma unroll
  for (int i = 0; i < vector_width; ++i) {
    const float x = in.at[i], gate = gelu_gate(x);
    const float slope = 2 * gelu_slope * (1.0F + 3.0F * gelu_cube * x * x);
    h.at[i] = x * gate;
    du.at[i] = gradient.at[i] * (gate + x * gate * (1.0F - gate) * slope);
  }
  store(at, du);
  if (emit_h) store(gradients, h);
}

__global__ void embed_kernel(Rows<const Bf16> table, const int* tokens, Rows<const Bf16> positions, unsigned seq,
                             Rows<Bf16> x, int columns) {
  const int token = tokens[blockIdx.x];
  const auto* const from = token < 0 ? nullptr : table.at(static_cast<std::size_t>(token));
  const auto* const position = positions.data == nullptr ? nullptr : positions.at(blockIdx.x % seq);
  auto* const to = x.at(blockIdx.x);
  for (int c = static_cast<int>(threadIdx.x) * vector_width; c < columns; c += static_cast<int>(block) * vector_width) {
    if (from == nullptr) {
      *reinterpret_cast<uint4*>(to + c) = uint4{};
      continue;
    }
    if (position == nullptr) {
      *reinterpret_cast<uint4*>(to + c) = *reinterpret_cast<const uint4*>(from + c);
      continue;
    }
    auto sum = load(from + c);
    const auto more = load(position + c);
#pragma unroll
    for (int i = 0; i < vector_width; ++i) sum.at[i] += more.at[i];
    store(to + c, sum);
  }
}

/// Each position in `order` has one block. The block of a token's first row adds all rows of this token, in their
/// order.
__global__ void embed_backward_kernel(Rows<const Bf16> dx, const int* tokens, const int* order, int rows,
                                      Rows<float> d_table, int columns) {
  const int first = static_cast<int>(blockIdx.x), token = tokens[order[first]];
  if (token < 0 || (first > 0 && tokens[order[first - 1]] == token)) return;
  auto* const to = d_table.at(static_cast<std::size_t>(token));
  for (int c = static_cast<int>(threadIdx.x) * vector_width; c < columns; c += static_cast<int>(block) * vector_width) {
    Eight sum{};
    for (int i = first; i < rows && tokens[order[i]] == token; ++i) {
      const auto values = load(dx.at(static_cast<std::size_t>(order[i])) + c);
#pragma unroll
      for (int j = 0; j < vector_width; ++j) sum.at[j] += values.at[j];
    }
#pragma unroll
    for (int j = 0; j < vector_width; ++j) to[c + j] += sum.at[j];
  }
}

__global__ void copy_rows_kernel(Rows<const Bf16> from, Rows<Bf16> to, std::size_t count, std::size_t vectors) {
  for (auto i = first_index(); i < count; i += stride()) {
    const auto row = i / vectors, c = i % vectors * vector_width;
    *reinterpret_cast<uint4*>(to.at(row) + c) = *reinterpret_cast<const uint4*>(from.at(row) + c);
  }
}

/// Calls launch(grid, first row, rows). Rows are along y, where a grid is limited to 65,535.
template <class Launch>
void launch_over_rows(std::size_t rows, std::size_t columns, const Launch& launch) {
  constexpr std::size_t max_rows = 65535;
  const auto across = static_cast<unsigned>((columns / vector_width + block - 1) / block);
  for (std::size_t first = 0; first < rows; first += max_rows) {
    const auto count = std::min(max_rows, rows - first);
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

void gelu(cudaStream_t stream, Matrix<const Bf16> u, Matrix<Bf16> h) {
  launch_over_rows(h.rows, h.cols, [&](dim3 grid, std::size_t first, std::size_t count) {
    gelu_kernel<<<grid, block, 0, stream>>>(u.row_range(first, count), h.row_range(first, count),
                                            static_cast<int>(h.cols));
  });
}

void gelu_backward(cudaStream_t stream, Matrix<Bf16> u, Matrix<Bf16> dh, bool emit_h) {
  launch_over_rows(dh.rows, dh.cols, [&](dim3 grid, std::size_t first, std::size_t count) {
    gelu_backward_kernel<<<grid, block, 0, stream>>>(u.row_range(first, count), dh.row_range(first, count), emit_h,
                                                     static_cast<int>(dh.cols));
  });
}

void embed(cudaStream_t stream, Matrix<const Bf16> table, const int* tokens, Matrix<const Bf16> positions,
           std::size_t seq, Matrix<Bf16> x) {
  embed_kernel<<<static_cast<unsigned>(x.rows), block, 0, stream>>>(
      table, tokens, positions, static_cast<unsigned>(seq), x, static_cast<int>(x.cols));
  check(cudaGetLastError());
}

void embed_backward(cudaStream_t stream, Matrix<const Bf16> dx, const int* tokens, const int* order,
                    Matrix<float> d_table) {
  embed_backward_kernel<<<static_cast<unsigned>(dx.rows), block, 0, stream>>>(
      dx, tokens, order, static_cast<int>(dx.rows), d_table, static_cast<int>(dx.cols));
  check(cudaGetLastError());
}

void copy_rows(cudaStream_t stream, Matrix<const Bf16> from, Matrix<Bf16> to) {
  const auto vectors = to.cols / vector_width, count = to.rows * vectors;
  copy_rows_kernel<<<blocks_for(count), block, 0, stream>>>(from, to, count, vectors);
  check(cudaGetLastError());
}

}  // namespace shakedown::cuda
