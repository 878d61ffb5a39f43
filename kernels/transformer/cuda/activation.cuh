// SwiGLU (Shazeer 2020) and GELU by tanh (Hendrycks and Gimpel 2016) of eight values. Each kernel that needs them calls
// these functions, so that all get the same bits.
#pragma once

#include "kernels/transformer/cuda/vector.cuh"

namespace shakedown::cuda {

__device__ inline float sigmoid(float x) { return 1.0F / (1.0F + __expf(-x)); }

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
__device__ inline float gelu_tanh(float u) { return tanhf(gelu_slope * (u + gelu_cube * u * u * u)); }

__device__ inline Eight gelu_of(const Eight& u) {
  Eight out;
#pragma unroll
  for (int i = 0; i < vector_width; ++i) out.at[i] = 0.5F * u.at[i] * (1.0F + gelu_tanh(u.at[i]));
  return out;
}

}  // namespace shakedown::cuda
