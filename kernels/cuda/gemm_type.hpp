// The cuBLASLt types of a product and its required accuracy, per data type.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "kernels/device.hpp"
#include "kernels/ops/gemm.hpp"

namespace shakedown::cuda {

struct GemmType {
  cudaDataType_t input, output;
  cublasComputeType_t compute;
  cudaDataType_t scale;  // the type of alpha and beta
  int capability;        // 10 x major + minor of the oldest GPU that supports the type
  double u_out, u_acc;   // unit roundoffs of the stored result and of the accumulation, for reference::gemm_tolerance
  bool along_k = false;  // true if A and B must both be contiguous along k
  int block = 0;         // number of neighbours along k that share a scale factor of one byte
  // Encoding of the scale factor 1, and the difference between the encodings of 2 and 1.
  unsigned char unit_scale = 0, scale_step = 0;
};

/// Returns the description of a product. Errors: Unsupported if this build's CUDA does not have the type;
/// std::invalid_argument for exact accumulation or f32 scale factors with a type other than fp8_e4m3.
GemmType gemm_type(const GemmSpec&);

/// Returns the unit roundoff of a result with inner dimension k: that of its type plus the drift of the accumulation.
double u_out_of(const GemmType&, int k);

/// Errors: Unsupported if the GPU is too old. The text names the required capability (10 x major + minor) and that of
/// this GPU.
void require_capability(DType, int least, int ordinal);

}  // namespace shakedown::cuda
