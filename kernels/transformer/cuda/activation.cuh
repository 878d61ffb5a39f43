// SwiGLU (Shazeer 2020) and GELU by tanh (Hendrycks and Gimpel 2016) of eight values. Each kernel that needs them calls
// these functions, so that all get the same bits. Their errors are far below the rounding of a result to bf16.
#pragma once

#include "kernels/transformer/cuda/vector.cuh"

namespace shakedown::cuda {

/// An exact division would need more instructions than the memory access of a kernel leaves time for.
__device__ inline float sigmoid(float x) { return __fdividef(1.0F, 1.0F + __expf(-x)); }

__device__ inline Eight swiglu_of(const Eight& gate, const Eight& up) {
  Eight out;
#pragma unroll
  for (int i = 0; i < vector_width; ++i) {
    const float silu = gate.at[i] * sigmoid(gate.at[i]);
    out.at[i] = silu * up.at[i];
  }
  return out;
}

/// sqrt(2 / pi), and the weight of the cube.
inline constexpr float gelu_slope = 0.7978845608F, gelu_cube = 0.044715F;
/// u/2 (1 + tanh(z)) is u sigmoid(2z). tanhf takes several times as many instructions, and the sum 1 + tanh(z) would
/// cancel where z is negative.
__device__ inline float gelu_gate(float u) { return sigmoid(2 * gelu_slope * (u + gelu_cube * u * u * u)); }

__device__ inline Eight gelu_of(const Eight& u) {
  Eight out;
#pragma unroll
  for (int i = 0; i < vector_width; ++i) out.at[i] = u.at[i] * gelu_gate(u.at[i]);
  return out;
}

}  // namespace shakedown::cuda
