#include "kernels/cuda/gemm_type.hpp"

#include <stdexcept>
#include <string>

#include "kernels/cuda/handle.hpp"
#include "kernels/gemm_scales.hpp"
#include "kernels/reference.hpp"

namespace shakedown::cuda {

namespace {

/// Unit roundoff of accumulation in tensor cores. They truncate bits that an f32 accumulator cannot hold, which doubles
/// the rounding error of f32 (Fasi et al., PeerJ Comput. Sci. 7, 2021). Adding the products of one step loses some
/// more.
constexpr double u_tensor = 0x1p-22;

/// Relative drift per element of k. Tensor cores truncate towards zero. On average, every step of the sum shrinks an
/// element by half a unit in the last place, at most 2^-24 of it. tf32 has the shortest steps, of 8 elements. Measured
/// on H200 at k = 28672: 2^-28.5 per element of k.
constexpr double tensor_drift = 0x1p-27;

/// Unit roundoffs of fp8 accumulation on Hopper. A tensor core aligns each step of its sum to 13 bits of fraction and
/// truncates the rest, unless the sum is promoted to f32 at intervals. DeepSeek-V3's technical report (2024, section
/// 3.3.2) found errors of 2 % at k = 4096. The same model with 13 bits has an error of 0.5 % there, and uses a tenth of
/// these tolerances up to k = 28672.
constexpr double u_fp8_fast = 0x1p-12;

constexpr double u_bf16 = 0x1p-8, u_f16 = 0x1p-11, u_f32 = 0x1p-24;

GemmType fp8(const GemmSpec& spec) {
  GemmType type{CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F, 89, u_bf16, u_fp8_fast};
  if (spec.accumulate == Accumulate::exact) type.u_acc = reference::promoted_fp8_roundoff(spec.k);
  type.along_k = true;
  if (spec.scaling == Scaling::tensor) return type;
  constexpr std::size_t first_with_scales = 120900;
  if (blas().cublasLtGetVersion() < first_with_scales) {
    throw Unsupported("scale:" + std::string(name(spec.scaling)) + " needs cuBLASLt of CUDA 12.9 or later");
  }
  type.capability = 90;  // cuBLASLt has them for Hopper alone, and decides about later GPUs itself
  return type;
}

/// Returns Blackwell's block-scaled types.
GemmType block_scaled(DType dtype) {
  GemmType type{CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F, 100, u_bf16, u_tensor};
  type.along_k = true;
  type.block = 32;
  type.unit_scale = 127;  // UE8M0: 2^(127 - 127)
  type.scale_step = 1;
  if (dtype == DType::nvfp4) {
    type.input = CUDA_R_4F_E2M1;
    type.block = 16;
    type.unit_scale = 0x38;  // UE4M3: exponent 7 - 7
    type.scale_step = 8;
  }
  return type;
}

}  // namespace

GemmType gemm_type(const GemmSpec& spec) {
  if (spec.accumulate == Accumulate::exact && spec.dtype != DType::fp8_e4m3) {
    throw std::invalid_argument("accumulate:exact is for fp8_e4m3: " + std::string(name(spec.dtype)) + " always is");
  }
  static_cast<void>(gemm_scales(spec));
  switch (spec.dtype) {
    // The reference is also computed in f64, so the tolerance is twice the error of one of them.
    case DType::f64: return {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F, 0, 0x1p-53, 0x1p-52};
    case DType::f32: return {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, CUDA_R_32F, 0, u_f32, u_f32};  // never tf32
    case DType::tf32: return {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, 80, u_f32, u_tensor};
    case DType::f16: return {CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F, CUDA_R_32F, 70, u_f16, u_tensor};
    case DType::bf16: return {CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F, 80, u_bf16, u_tensor};
    case DType::fp8_e4m3: return fp8(spec);
    case DType::int8: return {CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I, CUDA_R_32I, 72, 0, 0, true};
    case DType::nvfp4:
    case DType::mxfp8: return block_scaled(spec.dtype);
  }
  throw std::invalid_argument("unknown dtype");
}

double u_out_of(const GemmType& type, int k) {
  return type.u_acc == u_tensor ? type.u_out + tensor_drift * k : type.u_out;
}

void require_capability(DType dtype, int least, int ordinal) {
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal));
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal));
  if (10 * major + minor >= least) return;
  const auto text = [](int tens, int ones) { return std::to_string(tens) + "." + std::to_string(ones); };
  throw Unsupported(std::string(name(dtype)) + " needs compute capability " + text(least / 10, least % 10) +
                    " or later, this GPU has " + text(major, minor));
}

}  // namespace shakedown::cuda
