// Element by element: rotary positions (Su et al. 2021), SwiGLU (Shazeer 2020), the embedding, and copies of rows.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/handle.hpp"
#include "kernels/cuda/training/kernels.hpp"
#include "kernels/cuda/training/vector.cuh"

namespace shakedown::cuda {

namespace {

__global__ void rope_table_kernel(float2* table, int positions, int half, double theta) {
  const auto count = static_cast<std::size_t>(positions) * half;
  for (auto i = first_index(); i < count; i += stride()) {
    const auto position = static_cast<double>(i / half), pair = static_cast<double>(i % half);
    double sine = 0, cosine = 0;
    sincos(position * pow(theta, -pair / half), &sine, &cosine);
    table[i] = {static_cast<float>(cosine), static_cast<float>(sine)};
  }
}

/// One thread per `width` pairs: width 8 where half a head is whole vectors, else 1.
template <int width>
__global__ void rope_kernel(Rows<Bf16> x, const float2* table, std::size_t count, int positions, int heads, int half,
                            float direction) {
  const int per_head = half / width, per_row = heads * per_head;
  for (auto index = first_index(); index < count; index += stride()) {
    const auto row = index / per_row;
    const int inside = static_cast<int>(index % per_row), head = inside / per_head, i = inside % per_head * width;
    const float2* const turn = table + row % positions * half + i;
    Bf16* const first = x.at(row) + head * 2 * half + i;
    Bf16* const second = first + half;
    if constexpr (width == 1) {
      const float a = __bfloat162float(*first), b = __bfloat162float(*second), sine = direction * turn->y;
      *first = __float2bfloat16(a * turn->x - b * sine);
      *second = __float2bfloat16(b * turn->x + a * sine);
    } else {
      auto a = load(first), b = load(second);
#pragma unroll
      for (int j = 0; j < width; ++j) {
        const float2 at = turn[j];
        const float sine = direction * at.y, old = a.at[j];
        a.at[j] = old * at.x - b.at[j] * sine;
        b.at[j] = b.at[j] * at.x + old * sine;
      }
      store(first, a);
      store(second, b);
    }
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
  for (int i = 0; i < vector_width; ++i) out.at[i] = gate.at[i] * sigmoid(gate.at[i]) * up.at[i];
  store(h.at(blockIdx.y) + c, out);
}

__global__ void swiglu_backward_kernel(Rows<Bf16> gate_up, Rows<const Bf16> dh, Rows<Bf16> h, int columns) {
  const int c = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * vector_width;
  if (c >= columns) return;
  auto* const at = gate_up.at(blockIdx.y) + c;
  const auto gate = load(at), up = load(at + columns), gradient = load(dh.at(blockIdx.y) + c);
  Eight dgate, dup, out;
#pragma unroll
  for (int i = 0; i < vector_width; ++i) {
    const float s = sigmoid(gate.at[i]), silu = gate.at[i] * s;
    out.at[i] = silu * up.at[i];
    dup.at[i] = gradient.at[i] * silu;
    dgate.at[i] = gradient.at[i] * up.at[i] * (s + silu * (1.0F - s));
  }
  store(at, dgate);
  store(at + columns, dup);
  store(h.at(blockIdx.y) + c, out);
}

__global__ void embed_kernel(const std::int32_t* tokens, Rows<const Bf16> table, Rows<Bf16> x, int columns) {
  const auto* const from = table.at(static_cast<std::size_t>(tokens[blockIdx.x]));
  auto* const to = x.at(blockIdx.x);
  for (int c = static_cast<int>(threadIdx.x) * vector_width; c < columns; c += static_cast<int>(block) * vector_width) {
    *reinterpret_cast<uint4*>(to + c) = *reinterpret_cast<const uint4*>(from + c);
  }
}

__global__ void copy_rows_kernel(Rows<const Bf16> from, Rows<Bf16> to, std::size_t count, int vectors) {
  for (auto i = first_index(); i < count; i += stride()) {
    const auto row = i / vectors, c = i % vectors * vector_width;
    *reinterpret_cast<uint4*>(to.at(row) + c) = *reinterpret_cast<const uint4*>(from.at(row) + c);
  }
}

void require_vectors(int columns, const char* what) {
  if (columns % vector_width != 0) {
    throw std::invalid_argument(std::string(what) + " needs rows of whole vectors of 8 elements");
  }
}

/// Rows along y, of which a grid has at most 65,535.
template <class Launch>
void launch_over_rows(int rows, int columns, const Launch& launch) {
  constexpr int most = 65535;
  const auto across = static_cast<unsigned>((columns / vector_width + static_cast<int>(block) - 1) / static_cast<int>(block));
  for (int first = 0; first < rows; first += most) {
    launch(dim3(across, static_cast<unsigned>(std::min(most, rows - first))), static_cast<std::size_t>(first));
  }
  check(cudaGetLastError());
}

template <class T>
Rows<T> from_row(Rows<T> rows, std::size_t first) {
  return {rows.at(first), rows.stride};
}

}  // namespace

void make_rope_table(cudaStream_t stream, float2* table, int positions, int head_size, float theta) {
  const auto count = static_cast<std::size_t>(positions) * static_cast<std::size_t>(head_size / 2);
  rope_table_kernel<<<blocks_for(count), block, 0, stream>>>(table, positions, head_size / 2, theta);
  check(cudaGetLastError());
}

void rope(cudaStream_t stream, Rows<Bf16> x, const float2* table, int rows, int positions, int heads, int head_size,
          bool backward) {
  if (head_size % 2 != 0) throw std::invalid_argument("rotary positions need heads of an even size");
  const int half = head_size / 2;
  const float direction = backward ? -1.0F : 1.0F;
  const auto pairs = static_cast<std::size_t>(rows) * static_cast<std::size_t>(heads * half);
  if (half % vector_width == 0) {
    const auto count = pairs / vector_width;
    rope_kernel<vector_width>
        <<<blocks_for(count), block, 0, stream>>>(x, table, count, positions, heads, half, direction);
  } else {
    rope_kernel<1><<<blocks_for(pairs), block, 0, stream>>>(x, table, pairs, positions, heads, half, direction);
  }
  check(cudaGetLastError());
}

void swiglu(cudaStream_t stream, Rows<const Bf16> gate_up, Rows<Bf16> h, int rows, int columns) {
  require_vectors(columns, "SwiGLU");
  launch_over_rows(rows, columns, [&](dim3 grid, std::size_t first) {
    swiglu_kernel<<<grid, block, 0, stream>>>(from_row(gate_up, first), from_row(h, first), columns);
  });
}

void swiglu_backward(cudaStream_t stream, Rows<Bf16> gate_up, Rows<const Bf16> dh, Rows<Bf16> h, int rows,
                     int columns) {
  require_vectors(columns, "SwiGLU");
  launch_over_rows(rows, columns, [&](dim3 grid, std::size_t first) {
    swiglu_backward_kernel<<<grid, block, 0, stream>>>(from_row(gate_up, first), from_row(dh, first),
                                                       from_row(h, first), columns);
  });
}

void embed(cudaStream_t stream, const std::int32_t* tokens, Rows<const Bf16> table, Rows<Bf16> x, int rows,
           int columns) {
  require_vectors(columns, "the embedding");
  embed_kernel<<<static_cast<unsigned>(rows), block, 0, stream>>>(tokens, table, x, columns);
  check(cudaGetLastError());
}

void copy_rows(cudaStream_t stream, Rows<const Bf16> from, Rows<Bf16> to, int rows, int columns) {
  require_vectors(columns, "a copy");
  const int vectors = columns / vector_width;
  const auto count = static_cast<std::size_t>(rows) * static_cast<std::size_t>(vectors);
  copy_rows_kernel<<<blocks_for(count), block, 0, stream>>>(from, to, count, vectors);
  check(cudaGetLastError());
}

}  // namespace shakedown::cuda
