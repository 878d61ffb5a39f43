// Conversions of matrix elements inside kernels: rounds a double to an element, and converts an element to a double.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "kernels/ops/operation.hpp"

namespace shakedown::cuda {

/// An f32 of which tensor cores use only the 10 leading bits of the fraction.
struct Tf32 {
  float value;
};

/// Two 4-bit floats (sign, 2 bits of exponent, 1 of fraction), the first in the low half: 0 0.5 1 1.5 2 3 4 6.
struct TwoE2m1 {
  std::uint8_t bits;
};

/// An element of a block-scaled type, without its scale factor.
struct Mxfp8 {
  __nv_fp8_e4m3 value;
};

/// Number of neighbours along k that share a scale factor, or 0 if the type has no scale factors.
template <class T>
inline constexpr unsigned scale_block = 0;
template <>
inline constexpr unsigned scale_block<Mxfp8> = 32;
template <>
inline constexpr unsigned scale_block<TwoE2m1> = 16;

// Rounding to nearest ------------------------------------------------------------------------------------------------

__device__ inline void store(double* to, double value) { *to = value; }
__device__ inline void store(float* to, double value) { *to = static_cast<float>(value); }
__device__ inline void store(__half* to, double value) { *to = __double2half(value); }
__device__ inline void store(__nv_bfloat16* to, double value) { *to = __double2bfloat16(value); }
__device__ inline void store(__nv_fp8_e4m3* to, double value) { *to = __nv_fp8_e4m3(value); }
__device__ inline void store(Mxfp8* to, double value) { store(&to->value, value); }

__device__ inline void store(std::int8_t* to, double value) {
  *to = static_cast<std::int8_t>(rint(fmin(fmax(value, -127.0), 127.0)));
}

/// Rounds to nearest here, because the tensor core would truncate.
__device__ inline void store(Tf32* to, double value) {
  const unsigned bits = __float_as_uint(static_cast<float>(value));
  to->value = __uint_as_float((bits + 0xfffU + (bits >> 13 & 1U)) & ~0x1fffU);
}

__device__ inline unsigned e2m1(double value) {
  const double size = fabs(value);
  unsigned code = 0;
  constexpr double boundaries[] = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0};
  for (const double boundary : boundaries) code += size > boundary ? 1 : 0;
  return code | (value < 0 ? 8U : 0U);
}

__device__ inline TwoE2m1 pack(double first, double second) {
  return {static_cast<std::uint8_t>(e2m1(first) | e2m1(second) << 4)};
}

// Reading, exactly ---------------------------------------------------------------------------------------------------

__device__ inline double to_double(double value) { return value; }
__device__ inline double to_double(float value) { return value; }
__device__ inline double to_double(Tf32 element) { return element.value; }
__device__ inline double to_double(__half value) { return __half2float(value); }
__device__ inline double to_double(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ inline double to_double(__nv_fp8_e4m3 value) { return static_cast<float>(value); }
__device__ inline double to_double(Mxfp8 element) { return to_double(element.value); }
__device__ inline double to_double(std::int8_t value) { return value; }
__device__ inline double to_double(std::int32_t value) { return value; }

template <class T>
__device__ double element(const T* values, std::size_t i) {
  return to_double(values[i]);
}
__device__ inline double element(const TwoE2m1* pairs, std::size_t i) {
  const unsigned code = pairs[i / 2].bits >> (i % 2 * 4) & 15U;
  const unsigned size = code & 7U;  // 0 0.5 1 1.5 evenly spaced, then 2 3 4 6
  const double magnitude = size < 4 ? 0.5 * size : size < 6 ? size - 2.0 : 2.0 * size - 8.0;
  return code & 8U ? -magnitude : magnitude;
}

// Choice at run time -------------------------------------------------------------------------------------------------

/// Calls task(x) with an x of the type in which the inputs of a product of the given type are stored.
template <class Task>
void with_element(DType dtype, const Task& task) {
  switch (dtype) {
    case DType::f64: return task(double{});
    case DType::f32: return task(float{});
    case DType::tf32: return task(Tf32{});
    case DType::f16: return task(__half{});
    case DType::bf16: return task(__nv_bfloat16{});
    case DType::fp8_e4m3: return task(__nv_fp8_e4m3{});
    case DType::mxfp8: return task(Mxfp8{});
    case DType::int8: return task(std::int8_t{});
    case DType::nvfp4: return task(TwoE2m1{});
  }
  throw std::invalid_argument("unknown dtype");
}

}  // namespace shakedown::cuda
