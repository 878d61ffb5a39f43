// cuBLASLt's descriptors for one product.
#include "kernels/cuda/gemm_plan.hpp"

#include <array>
#include <cstdint>
#include <string>

namespace shakedown::cuda {

namespace {

constexpr int most_candidates = 16;

cudaDataType_t data_type(DType dtype) {
  if (dtype == DType::bf16) return CUDA_R_16BF;
  if (dtype == DType::f32) return CUDA_R_32F;
  throw Unsupported("the cuda backend multiplies bf16 and f32 only, not " + std::string(name(dtype)));
}

BlasHandle make_blas() {
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle));
  return BlasHandle(handle);
}

/// Accumulates in f32; for f32 inputs CUBLAS_COMPUTE_32F is plain f32, never tf32.
MatmulDesc make_product(bool a_by_rows) {
  cublasLtMatmulDesc_t product = nullptr;
  check(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  MatmulDesc owned(product);
  const cublasOperation_t operation = a_by_rows ? CUBLAS_OP_T : CUBLAS_OP_N;
  check(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &operation, sizeof operation));
  return owned;
}

MatrixLayout make_layout(DType dtype, int rows, int columns) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublasLtMatrixLayoutCreate(&layout, data_type(dtype), static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(columns), rows));
  return MatrixLayout(layout);
}

MatmulPreference make_preference(std::size_t workspace_bytes) {
  cublasLtMatmulPreference_t preference = nullptr;
  check(cublasLtMatmulPreferenceCreate(&preference));
  MatmulPreference owned(preference);
  check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes,
                                             sizeof workspace_bytes));
  return owned;
}

}  // namespace

/// The layout that suits the type: 16-bit products feed the tensor cores best along k; f32 uses the plain one, which is
/// also what torch.matmul asks for.
GemmPlan::GemmPlan(const GemmSpec& spec)
    : a_by_rows_(spec.dtype == DType::bf16),
      blas_(make_blas()),
      product_(make_product(a_by_rows_)),
      a_(a_by_rows_ ? make_layout(spec.dtype, spec.k, spec.m) : make_layout(spec.dtype, spec.m, spec.k)),
      b_(make_layout(spec.dtype, spec.k, spec.n)),
      c_(make_layout(spec.dtype, spec.m, spec.n)),
      candidates_(propose()) {
  if (candidates_.empty()) throw Unsupported("cuBLASLt has no algorithm for " + key(spec));
}

std::vector<cublasLtMatmulAlgo_t> GemmPlan::propose() const {
  const auto preference = make_preference(workspace_bytes);
  std::array<cublasLtMatmulHeuristicResult_t, most_candidates> results{};
  int found = 0;
  const auto status =
      cublasLtMatmulAlgoGetHeuristic(blas_.get(), product_.get(), a_.get(), b_.get(), c_.get(), c_.get(),
                                     preference.get(), most_candidates, results.data(), &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  check(status);
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < found; ++i) {
    const auto& result = results[static_cast<std::size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
  }
  return algorithms;
}

cublasStatus_t GemmPlan::enqueue(const cublasLtMatmulAlgo_t& algorithm, const GemmOperands& operands,
                                 cudaStream_t stream) const {
  const float one = 1, zero = 0;
  return cublasLtMatmul(blas_.get(), product_.get(), &one, operands.a, a_.get(), operands.b, b_.get(), &zero,
                        operands.c, c_.get(), operands.c, c_.get(), &algorithm, operands.workspace, workspace_bytes,
                        stream);
}

}  // namespace shakedown::cuda
