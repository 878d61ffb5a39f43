// cuBLASLt's descriptors.
#include "kernels/cuda/matmul.hpp"

namespace shakedown::cuda {

namespace {

MatrixLayout make_layout(const MatmulMatrix& matrix) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(blas().cublasLtMatrixLayoutCreate(&layout, matrix.type, matrix.rows, matrix.cols,
                                          static_cast<std::int64_t>(matrix.stride)));
  return MatrixLayout(layout);
}

template <class Value>
void set(const MatmulDesc& product, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  check(blas().cublasLtMatmulDescSetAttribute(product.get(), attribute, &value, sizeof value));
}

template <class Value>
void set(const MatmulPreference& preference, cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
  check(blas().cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value));
}

/// True if the algorithm has this setting.
bool set(MatmulAlgorithm& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute, std::uint32_t value) {
  return blas().cublasLtMatmulAlgoConfigSetAttribute(&algorithm, attribute, &value, sizeof value) ==
         CUBLAS_STATUS_SUCCESS;
}

static_assert(static_cast<std::int32_t>(ScaleMode::of_16) == CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3);
static_assert(static_cast<std::int32_t>(ScaleMode::of_32) == CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0);

void set_scales(const MatmulDesc& product, const MatmulShape& shape) {
  set(product, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, shape.a_scale);
  set(product, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, shape.b_scale);
  set(product, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, shape.a_scales);
  set(product, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, shape.b_scales);
}

MatmulDesc make_product(const MatmulShape& shape) {
  cublasLtMatmulDesc_t raw = nullptr;
  check(blas().cublasLtMatmulDescCreate(&raw, shape.compute, shape.scale));
  MatmulDesc product(raw);
  const auto operation = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(product, CUBLASLT_MATMUL_DESC_TRANSA, operation(shape.a_transposed));
  set(product, CUBLASLT_MATMUL_DESC_TRANSB, operation(shape.b_transposed));
  if (shape.gelu) {
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, shape.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU);
  } else if (shape.bias) {
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  }
  if (shape.bias) {
    set(product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_16BF);
  }
  if (shape.fast_accumulation) {
    set(product, CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(*shape.fast_accumulation));
  }
  if (shape.a_scale != ScaleMode::none) set_scales(product, shape);
  return product;
}

/// Partial sums along k are added in the type of the accumulation and in a fixed order. A result is therefore rounded
/// only once, and equal inputs give equal bits.
MatmulPreference make_preference(const MatmulShape& shape) {
  cublasLtMatmulPreference_t raw = nullptr;
  check(blas().cublasLtMatmulPreferenceCreate(&raw));
  MatmulPreference preference(raw);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, shape.workspace_bytes);
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  if (shape.alignment) {
    const auto& [a, b, c, d] = *shape.alignment;
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, a);
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, b);
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c);
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, d);
  }
  return preference;
}

}  // namespace

BlasHandle make_blas() {
  cublasLtHandle_t handle = nullptr;
  check(blas().cublasLtCreate(&handle));
  return BlasHandle(handle);
}

std::optional<std::uint32_t> find_setting(const MatmulAlgorithm& algorithm,
                                          cublasLtMatmulAlgoConfigAttributes_t attribute) {
  const auto read = [&](auto value) -> std::optional<std::uint32_t> {
    std::size_t written = 0;
    const auto status =
        blas().cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof value, &written);
    return status == CUBLAS_STATUS_SUCCESS ? std::optional<std::uint32_t>(value) : std::nullopt;
  };
  const bool is_shape =
      attribute == CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID || attribute == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID;
  return is_shape ? read(std::uint16_t{}) : read(std::uint32_t{});
}

Matmul::Matmul(cublasLtHandle_t blas, const MatmulShape& shape)
    : blas_(blas),
      scale_(shape.scale),
      workspace_bytes_(shape.workspace_bytes),
      product_(make_product(shape)),
      a_(make_layout(shape.a)),
      b_(make_layout(shape.b)),
      d_(make_layout(shape.d)),
      preference_(make_preference(shape)) {}

std::vector<MatmulAlgorithm> Matmul::propose(int most, cublasStatus_t& status) const {
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
  int found = 0;
  status = blas().cublasLtMatmulAlgoGetHeuristic(blas_, product_.get(), a_.get(), b_.get(), d_.get(), d_.get(),
                                                 preference_.get(), most, results.data(), &found);
  std::vector<MatmulAlgorithm> algorithms;
  for (int i = 0; i < found; ++i) {
    const auto& result = results[static_cast<std::size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
  }
  return algorithms;
}

std::optional<MatmulAlgorithm> Matmul::split(MatmulAlgorithm algorithm, std::uint32_t parts) const {
  if (find_setting(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) == parts) return std::nullopt;
  const bool has_it = set(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, parts) &&
                      set(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  return has_it && runs(algorithm) ? std::optional(algorithm) : std::nullopt;
}

bool Matmul::runs(const MatmulAlgorithm& algorithm) const {
  cublasLtMatmulHeuristicResult_t result{};
  const auto status = blas().cublasLtMatmulAlgoCheck(blas_, product_.get(), a_.get(), b_.get(), d_.get(), d_.get(),
                                                     &algorithm, &result);
  return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= workspace_bytes_;
}

cublasStatus_t Matmul::enqueue(const MatmulAlgorithm& algorithm, const MatmulOperands& operands,
                               cudaStream_t stream) const {
  if (operands.bias != nullptr) set(product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
  const auto multiply = [&](auto alpha, auto beta) {
    return blas().cublasLtMatmul(blas_, product_.get(), &alpha, operands.a, a_.get(), operands.b, b_.get(), &beta,
                                 operands.c, d_.get(), operands.d, d_.get(), &algorithm, operands.workspace,
                                 workspace_bytes_, stream);
  };
  if (scale_ == CUDA_R_64F) return multiply(operands.alpha, operands.beta);
  if (scale_ == CUDA_R_32I) {
    return multiply(static_cast<std::int32_t>(operands.alpha), static_cast<std::int32_t>(operands.beta));
  }
  return multiply(static_cast<float>(operands.alpha), static_cast<float>(operands.beta));
}

}  // namespace shakedown::cuda
