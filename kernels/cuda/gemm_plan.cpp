#include "kernels/cuda/gemm_plan.hpp"

#include <algorithm>
#include <charconv>
#include <span>
#include <sstream>
#include <system_error>

#include "kernels/cuda/tiling.hpp"
#include "kernels/gemm_scales.hpp"

namespace shakedown::cuda {

namespace {

constexpr int max_candidates = 16;  // for each layout

void set_scales(MatmulShape& shape, const GemmSpec& spec, const GemmType& type, const void* scales) {
  if (type.block != 0) {
    shape.a_scale = shape.b_scale = type.block == 16 ? ScaleMode::of_16 : ScaleMode::of_32;
    shape.a_scales = shape.b_scales = scales;
  } else if (spec.scaling != Scaling::tensor) {
    const bool by_rows = spec.scaling == Scaling::row;
    shape.a_scale = by_rows ? ScaleMode::row : ScaleMode::of_128;
    shape.b_scale = by_rows ? ScaleMode::row : ScaleMode::block128;
    shape.a_scales = scales;
    shape.b_scales = static_cast<const float*>(scales) + gemm_scales(spec).b_begin;
  }
}

MatmulShape shape_of(const GemmSpec& spec, const GemmType& type, bool a_by_rows, const void* scales) {
  const auto matrix = [](cudaDataType_t element, int rows, int cols) {
    const auto r = static_cast<std::uint64_t>(rows);
    return MatmulMatrix{element, r, static_cast<std::uint64_t>(cols), r};
  };
  const auto a = a_by_rows ? matrix(type.input, spec.k, spec.m) : matrix(type.input, spec.m, spec.k);
  MatmulShape shape{type.compute,
                    type.scale,
                    a,
                    matrix(type.input, spec.k, spec.n),
                    matrix(type.output, spec.m, spec.n),
                    a_by_rows,
                    false,
                    GemmPlan::workspace_bytes};
  if (spec.dtype == DType::fp8_e4m3) shape.fast_accumulation = spec.accumulate == Accumulate::fast;
  set_scales(shape, spec, type, scales);
  return shape;
}

/// Returns the proposed algorithms. cuBLASLt reports a combination of GPU and shape that it does not support as one of
/// two errors; the list is then empty.
std::vector<MatmulAlgorithm> propose(const Matmul& product, cublasStatus_t& status) {
  auto algorithms = product.propose(max_candidates, status);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
  check(status);
  return algorithms;
}

}  // namespace

/// Returns the layout, the place in the list of cuBLASLt, and the bytes of the algorithm in hexadecimal.
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

/// Puts the likelier layout first. Tensor cores run best if both inputs are contiguous along k; for plain f32 and f64,
/// the first layout is that of torch.matmul.
GemmPlan::GemmPlan(const GemmSpec& spec, const GemmType& type, const void* scales) : spec_(spec), blas_(make_blas()) {
  const bool by_rows_first = spec.dtype != DType::f32 && spec.dtype != DType::f64;
  const auto add_layout = [&](bool a_by_rows) {
    const auto shape = shape_of(spec, type, a_by_rows, scales);
    layouts_.push_back({a_by_rows, shape, Matmul(blas_.get(), shape)});
  };
  add_layout(by_rows_first);
  if (!type.along_k) add_layout(!by_rows_first);

  auto status = CUBLAS_STATUS_SUCCESS;
  std::vector<std::vector<MatmulAlgorithm>> proposals;
  for (const auto& layout : layouts_) proposals.push_back(propose(layout.product, status));
  for (std::uint32_t rank = 0; rank < max_candidates; ++rank) {
    for (std::uint32_t l = 0; l < proposals.size(); ++l) {
      if (rank < proposals[l].size()) candidates_.push_back({l, rank, proposals[l][rank]});
    }
  }
  if (candidates_.empty()) {
    throw Unsupported("cuBLASLt has no algorithm for " + key(spec) + " (" + blas().cublasLtGetStatusString(status) +
                      ")");
  }
  if (spec.dtype != DType::f64) return;
  cublasHandle_t handle = nullptr;
  check(blas().cublasCreate(&handle));
  dgemm_ = CublasHandle(handle);
  for (std::uint32_t l = 0; l < layouts_.size(); ++l) {
    candidates_.insert(candidates_.begin() + 1 + l, {l, GemmCandidate::dgemm, {}});
  }
}

/// Returns the size of the scale factors. Those of one byte are in tiles of 128 rows by 4 factors.
std::size_t GemmPlan::scale_bytes(const GemmSpec& spec, const GemmType& type) {
  if (type.block == 0) return gemm_scales(spec).count * sizeof(float);
  const auto rounded = [](int count, int to) { return static_cast<std::size_t>((count + to - 1) / to * to); };
  return rounded(std::max(spec.m, spec.n), 128) * rounded((spec.k + type.block - 1) / type.block, 4);
}

cublasStatus_t GemmPlan::enqueue(const GemmCandidate& candidate, const GemmOperands& operands,
                                 cudaStream_t stream) const {
  if (candidate.rank == GemmCandidate::dgemm) return enqueue_dgemm(a_by_rows(candidate), operands, stream);
  const MatmulOperands all{operands.a, operands.b, operands.c, operands.c, operands.workspace};
  return layouts_[candidate.layout].product.enqueue(candidate.algorithm, all, stream);
}

/// Runs cublasDgemm in the workspace of all candidates; a workspace of its own would not be in the memory plan.
cublasStatus_t GemmPlan::enqueue_dgemm(bool a_by_rows, const GemmOperands& operands, cudaStream_t stream) const {
  if (!dgemm_) return CUBLAS_STATUS_NOT_SUPPORTED;
  auto status = blas().cublasSetStream(dgemm_.get(), stream);  // this call also resets the workspace
  if (status == CUBLAS_STATUS_SUCCESS)
    status = blas().cublasSetWorkspace(dgemm_.get(), operands.workspace, workspace_bytes);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const double one = 1, zero = 0;
  const int m = spec_.m, n = spec_.n, k = spec_.k;
  return blas().cublasDgemm(dgemm_.get(), a_by_rows ? CUBLAS_OP_T : CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one,
                            static_cast<const double*>(operands.a), a_by_rows ? k : m,
                            static_cast<const double*>(operands.b), k, &zero, static_cast<double*>(operands.c), m);
}

bool GemmPlan::runs(const GemmCandidate& candidate) const {
  if (candidate.layout >= layouts_.size()) return false;
  if (candidate.rank == GemmCandidate::dgemm) return dgemm_ != nullptr;
  return layouts_[candidate.layout].product.runs(candidate.algorithm);
}

Metrics GemmPlan::describe(const GemmCandidate& candidate) {
  if (candidate.rank == GemmCandidate::dgemm) return {{"candidate", candidate.rank}};
  Metrics metrics{{"candidate", candidate.rank}};
  const auto add = [&](const char* name, cublasLtMatmulAlgoConfigAttributes_t attribute) {
    if (const auto value = find_setting(candidate.algorithm, attribute)) metrics.emplace_back(name, *value);
  };
  add("algorithm", CUBLASLT_ALGO_CONFIG_ID);
  add("tile", CUBLASLT_ALGO_CONFIG_TILE_ID);
  return metrics;
}

std::optional<ProductTiling> GemmPlan::tiling(const GemmCandidate& candidate, int multiprocessors) const {
  if (candidate.rank == GemmCandidate::dgemm) return std::nullopt;
  return tiling_of(candidate.algorithm, layouts_[candidate.layout].shape, multiprocessors);
}

}  // namespace shakedown::cuda
