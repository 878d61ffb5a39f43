// cuBLASLt's descriptors for one product.
#include "kernels/cuda/gemm_plan.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <sstream>
#include <string>
#include <system_error>

namespace shakedown::cuda {

namespace {

constexpr int most_candidates = 16;  // of each layout

BlasHandle make_blas() {
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle));
  return BlasHandle(handle);
}

MatrixLayout make_matrix(cudaDataType_t type, int rows, int columns) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns),
                                   rows));
  return MatrixLayout(layout);
}

template <class Value>
void set(const MatmulDesc& product, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  check(cublasLtMatmulDescSetAttribute(product.get(), attribute, &value, sizeof value));
}

/// Partial sums along k are added up in the type of the accumulation, so that a result is rounded once.
MatmulPreference make_preference(std::size_t workspace_bytes) {
  cublasLtMatmulPreference_t preference = nullptr;
  check(cublasLtMatmulPreferenceCreate(&preference));
  MatmulPreference owned(preference);
  check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes,
                                             sizeof workspace_bytes));
  const std::uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction,
                                             sizeof reduction));
  return owned;
}

void set_scales([[maybe_unused]] const MatmulDesc& product, [[maybe_unused]] int block,
                [[maybe_unused]] const void* scales) {
#if CUDART_VERSION >= 12080
  const std::int32_t mode =
      block == 16 ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3 : CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0;
  set(product, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode);
  set(product, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode);
  set(product, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scales);
  set(product, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scales);
#endif
}

double number(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  std::uint32_t value = 0;
  std::size_t written = 0;
  check(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof value, &written));
  return value;
}

}  // namespace

/// Layout, rank, and the bytes of the algorithm in hexadecimal.
std::string to_text(const GemmCandidate& candidate) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text = std::to_string(candidate.layout) + " " + std::to_string(candidate.rank) + " ";
  for (const auto byte : std::as_bytes(std::span(&candidate.algorithm, 1))) {
    text += digits[std::to_integer<unsigned>(byte) >> 4];
    text += digits[std::to_integer<unsigned>(byte) & 15U];
  }
  return text;
}

std::optional<GemmCandidate> candidate_from(const std::string& text) {
  GemmCandidate candidate{};
  std::istringstream words(text);
  std::string bytes, rest;
  if (!(words >> candidate.layout >> candidate.rank >> bytes) || words >> rest) return std::nullopt;
  const auto algorithm = std::as_writable_bytes(std::span(&candidate.algorithm, 1));
  if (bytes.size() != 2 * algorithm.size()) return std::nullopt;
  for (std::size_t i = 0; i < algorithm.size(); ++i) {
    const char* const begin = bytes.data() + 2 * i;
    unsigned value = 0;
    const auto [end, error] = std::from_chars(begin, begin + 2, value, 16);
    if (error != std::errc() || end != begin + 2) return std::nullopt;
    algorithm[i] = static_cast<std::byte>(value);
  }
  return candidate;
}

/// The likelier layout first: tensor cores are fed best along k; plain f32 and f64 take the matrices as torch.matmul
/// hands them over.
GemmPlan::GemmPlan(const GemmSpec& spec, const GemmType& type, const void* scales)
    : type_(type),
      blas_(make_blas()),
      b_(make_matrix(type.input, spec.k, spec.n)),
      c_(make_matrix(type.output, spec.m, spec.n)) {
  const bool by_rows_first = spec.dtype != DType::f32 && spec.dtype != DType::f64;
  layouts_.push_back(make_layout(spec, by_rows_first, scales));
  if (!type.along_k) layouts_.push_back(make_layout(spec, !by_rows_first, scales));

  auto status = CUBLAS_STATUS_SUCCESS;
  std::vector<std::vector<cublasLtMatmulAlgo_t>> proposals;
  for (const auto& layout : layouts_) proposals.push_back(propose(layout, status));
  for (std::uint32_t rank = 0; rank < most_candidates; ++rank) {
    for (std::uint32_t l = 0; l < proposals.size(); ++l) {
      if (rank < proposals[l].size()) candidates_.push_back({l, rank, proposals[l][rank]});
    }
  }
  if (candidates_.empty()) {
    throw Unsupported("cuBLASLt has no algorithm for " + key(spec) + " (" + cublasLtGetStatusString(status) + ")");
  }
}

/// cuBLASLt wants them in tiles of 128 rows by 4 factors.
std::size_t GemmPlan::scale_bytes(const GemmSpec& spec, const GemmType& type) {
  if (type.block == 0) return 0;
  const auto rounded = [](int count, int to) { return static_cast<std::size_t>((count + to - 1) / to * to); };
  return rounded(std::max(spec.m, spec.n), 128) * rounded((spec.k + type.block - 1) / type.block, 4);
}

GemmPlan::Layout GemmPlan::make_layout(const GemmSpec& spec, bool a_by_rows, const void* scales) const {
  cublasLtMatmulDesc_t product = nullptr;
  check(cublasLtMatmulDescCreate(&product, type_.compute, type_.scale));
  MatmulDesc owned(product);
  const cublasOperation_t operation = a_by_rows ? CUBLAS_OP_T : CUBLAS_OP_N;
  set(owned, CUBLASLT_MATMUL_DESC_TRANSA, operation);
  if (spec.dtype == DType::fp8_e4m3) {
    const std::int8_t fast = spec.accumulate == Accumulate::fast ? 1 : 0;
    set(owned, CUBLASLT_MATMUL_DESC_FAST_ACCUM, fast);
  }
  if (type_.block != 0) set_scales(owned, type_.block, scales);
  auto a = a_by_rows ? make_matrix(type_.input, spec.k, spec.m) : make_matrix(type_.input, spec.m, spec.k);
  return {a_by_rows, std::move(owned), std::move(a)};
}

/// What a GPU or a shape does not support is reported as one of two errors.
std::vector<cublasLtMatmulAlgo_t> GemmPlan::propose(const Layout& layout, cublasStatus_t& status) const {
  const auto preference = make_preference(workspace_bytes);
  std::array<cublasLtMatmulHeuristicResult_t, most_candidates> results{};
  int found = 0;
  status = cublasLtMatmulAlgoGetHeuristic(blas_.get(), layout.product.get(), layout.a.get(), b_.get(), c_.get(),
                                          c_.get(), preference.get(), most_candidates, results.data(), &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
  check(status);
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < found; ++i) {
    const auto& result = results[static_cast<std::size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
  }
  return algorithms;
}

cublasStatus_t GemmPlan::enqueue(const GemmCandidate& candidate, const GemmOperands& operands,
                                 cudaStream_t stream) const {
  const auto& layout = layouts_[candidate.layout];
  const auto multiply = [&](auto one, auto zero) {
    return cublasLtMatmul(blas_.get(), layout.product.get(), &one, operands.a, layout.a.get(), operands.b, b_.get(),
                          &zero, operands.c, c_.get(), operands.c, c_.get(), &candidate.algorithm, operands.workspace,
                          workspace_bytes, stream);
  };
  if (type_.scale == CUDA_R_64F) return multiply(1.0, 0.0);
  if (type_.scale == CUDA_R_32I) return multiply(std::int32_t{1}, std::int32_t{0});
  return multiply(1.0F, 0.0F);
}

bool GemmPlan::runs(const GemmCandidate& candidate) const {
  if (candidate.layout >= layouts_.size()) return false;
  const auto& layout = layouts_[candidate.layout];
  cublasLtMatmulHeuristicResult_t result{};
  const auto status = cublasLtMatmulAlgoCheck(blas_.get(), layout.product.get(), layout.a.get(), b_.get(), c_.get(),
                                              c_.get(), &candidate.algorithm, &result);
  return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= workspace_bytes;
}

Metrics GemmPlan::describe(const GemmCandidate& candidate) {
  return {{"algorithm", number(candidate.algorithm, CUBLASLT_ALGO_CONFIG_ID)},
          {"tile", number(candidate.algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID)},
          {"candidate", candidate.rank}};
}

}  // namespace shakedown::cuda
