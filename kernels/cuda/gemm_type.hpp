// What a product of each type is to cuBLASLt, and how exact it must be.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "kernels/device.hpp"
#include "kernels/ops/gemm.hpp"

namespace shakedown::cuda {

struct GemmType {
  cudaDataType_t input, output;
  cublasComputeType_t compute;
  cudaDataType_t scale;  // of alpha and beta
  int capability;        // 10 x major + minor of the oldest GPU that has it
  double u_out, u_acc;   // unit roundoffs of the stored result and of the accumulation, for reference::gemm_tolerance
  bool along_k = false;  // A and B must both be contiguous along k
  int block = 0;         // so many neighbours along k share a scale factor of one byte
  unsigned char unit_scale = 0;  // the byte that stands for 1
};

/// Errors: Unsupported if the CUDA that this was built with does not know the type; std::invalid_argument for exact
/// accumulation of anything but fp8_e4m3.
GemmType gemm_type(const GemmSpec&);

/// The unit roundoff of a result with inner dimension k: that of its type, and how far the accumulation drifts.
double u_out_of(const GemmType&, int k);

/// Errors: Unsupported, with the type's need (10 x major + minor) and what this GPU has.
void require_capability(DType, int least, int ordinal);

}  // namespace shakedown::cuda
