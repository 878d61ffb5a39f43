// cuBLASLt's descriptors. It is column-major: a row-major product D = A B is D' = B' A' to it, so B comes first.
#include "kernels/cuda/training/products.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <type_traits>

#include "kernels/cuda/tuner.hpp"

namespace shakedown::cuda {

namespace {

constexpr std::uintptr_t best_alignment = 256;

BlasHandle make_blas() {
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle));
  return BlasHandle(handle);
}

/// A row-major matrix, which is a column-major one of `cols` rows.
MatrixLayout make_layout(cudaDataType_t type, std::uint64_t rows, std::uint64_t cols, std::uint64_t row_stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublasLtMatrixLayoutCreate(&layout, type, cols, rows, static_cast<std::int64_t>(row_stride)));
  return MatrixLayout(layout);
}

template <class Value>
void set(const MatmulDesc& product, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  check(cublasLtMatmulDescSetAttribute(product.get(), attribute, &value, sizeof value));
}

template <class Value>
void set(const MatmulPreference& preference, cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value));
}

/// Partial sums along the inner dimension are added in f32 and in a fixed order.
MatmulPreference make_preference(const ProductKey& key) {
  cublasLtMatmulPreference_t raw = nullptr;
  check(cublasLtMatmulPreferenceCreate(&raw));
  MatmulPreference preference(raw);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, Products::workspace_bytes);
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.b_alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.a_alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.c_alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.d_alignment);
  return preference;
}

std::uint32_t alignment_of(const void* address) {
  const auto value = std::bit_cast<std::uintptr_t>(address) | best_alignment;
  return static_cast<std::uint32_t>(value & (~value + 1));
}

std::string text_of(const ProductKey& key) {
  return fmt::format("{} x {} x {} {}{}{}{}{}", key.rows, key.cols, key.inner, key.a_transposed ? 'T' : 'N',
                     key.b_transposed ? 'T' : 'N', key.f32_out ? " f32" : " bf16", key.bias ? " bias" : "",
                     key.adds ? " add" : "");
}

std::uint32_t number(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  std::uint32_t value = 0;
  std::size_t written = 0;
  check(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof value, &written));
  return value;
}

/// Whether the algorithm has that setting.
bool set(cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute, std::uint32_t value) {
  return cublasLtMatmulAlgoConfigSetAttribute(&algorithm, attribute, &value, sizeof value) == CUBLAS_STATUS_SUCCESS;
}

/// A product of an adapter: memory sets its pace, if enough multiprocessors take part.
bool is_thin(const ProductKey& key) {
  constexpr std::uint64_t thin = 512;
  return std::min(key.rows, key.cols) <= thin;
}

}  // namespace

Products::Products(const Gpu& gpu, const ProductTuning& tuning)
    : gpu_(gpu), tuning_settings_(tuning), blas_(make_blas()) {}

Products::Plan Products::make_plan(const ProductKey& key) const {
  cublasLtMatmulDesc_t raw = nullptr;
  check(cublasLtMatmulDescCreate(&raw, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  Plan plan;
  plan.product.reset(raw);
  const auto operation = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(plan.product, CUBLASLT_MATMUL_DESC_TRANSA, operation(key.b_transposed));
  set(plan.product, CUBLASLT_MATMUL_DESC_TRANSB, operation(key.a_transposed));
  if (key.bias) {
    set(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(plan.product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_16BF);
  }
  plan.first = make_layout(CUDA_R_16BF, key.b_transposed ? key.cols : key.inner,
                           key.b_transposed ? key.inner : key.cols, key.b_stride);
  plan.second = make_layout(CUDA_R_16BF, key.a_transposed ? key.inner : key.rows,
                            key.a_transposed ? key.rows : key.inner, key.a_stride);
  plan.d = make_layout(key.f32_out ? CUDA_R_32F : CUDA_R_16BF, key.rows, key.cols, key.d_stride);

  const auto preference = make_preference(key);
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(tuning_settings_.candidates));
  int found = 0;
  const auto status = cublasLtMatmulAlgoGetHeuristic(blas_.get(), plan.product.get(), plan.first.get(),
                                                     plan.second.get(), plan.d.get(), plan.d.get(), preference.get(),
                                                     tuning_settings_.candidates, results.data(), &found);
  for (int i = 0; i < found; ++i) {
    const auto& result = results[static_cast<std::size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS) plan.candidates.push_back(result.algo);
  }
  if (is_thin(key)) add_splits(plan);
  if (plan.candidates.empty()) {
    throw Unsupported("cuBLASLt has no algorithm for the product " + text_of(key) + " (" +
                      cublasLtGetStatusString(status) + ")");
  }
  return plan;
}

/// A thin product has fewer tiles than the GPU has multiprocessors, and cuBLASLt seldom proposes to cut the sum as
/// well. The partial sums are added in f32 and in a fixed order, as those of its own proposals.
void Products::add_splits(Plan& plan) const {
  constexpr std::size_t proposals = 4;  // whose tiles are tried
  const auto own = plan.candidates;
  for (const std::uint32_t split : {2, 3, 4, 6, 8}) {
    for (std::size_t i = 0; i < std::min(own.size(), proposals); ++i) {
      auto algorithm = own[i];
      if (number(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) == split) continue;
      const bool has_it = set(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, split) &&
                          set(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
      if (has_it && fits(plan, algorithm)) plan.candidates.push_back(algorithm);
    }
  }
}

bool Products::fits(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm) const {
  cublasLtMatmulHeuristicResult_t result{};
  const auto status = cublasLtMatmulAlgoCheck(blas_.get(), plan.product.get(), plan.first.get(), plan.second.get(),
                                              plan.d.get(), plan.d.get(), &algorithm, &result);
  return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= workspace_bytes;
}

Products::Plan& Products::plan_for(const ProductKey& key, const Operands& operands) {
  const auto known = plans_.find(key);
  if (known != plans_.end()) return known->second;
  auto& plan = plans_.emplace(key, make_plan(key)).first->second;
  if (!tuning_) return plan;
  const auto try_candidate = [&](std::size_t i) {
    return enqueue(plan, plan.candidates[i], operands) == CUBLAS_STATUS_SUCCESS;
  };
  plan.chosen = pick_fastest(gpu_, plan.candidates.size(), try_candidate,
                             {.seconds = tuning_settings_.seconds, .sustained = tuning_settings_.sustained})
                    .value_or(0);
  return plan;
}

cublasStatus_t Products::enqueue(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm,
                                 const Operands& operands) const {
  if (operands.bias != nullptr) set(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
  return cublasLtMatmul(blas_.get(), plan.product.get(), &operands.alpha, operands.b, plan.first.get(), operands.a,
                        plan.second.get(), &operands.beta, operands.c, plan.d.get(), operands.d, plan.d.get(),
                        &algorithm, workspace_, workspace_bytes, gpu_.stream());
}

namespace {

template <class Out>
ProductKey key_of(const training::Gemm<Bf16, Out>& g) {
  return {g.d.rows,
          g.d.cols,
          g.a_transposed ? g.a.rows : g.a.cols,
          g.a.stride,
          g.b.stride,
          g.d.stride,
          g.a_transposed,
          g.b_transposed,
          std::is_same_v<Out, float>,
          g.bias != nullptr,
          g.beta != 0,
          alignment_of(g.a.data),
          alignment_of(g.b.data),
          alignment_of(g.c != nullptr ? g.c : g.d.data),
          alignment_of(g.d.data)};
}

}  // namespace

template <class Out>
void Products::multiply(const training::Gemm<Bf16, Out>& g) {
  const auto* const c = g.c != nullptr ? g.c : g.d.data;
  const Operands operands{
      g.a.data, g.b.data, c, g.bias, g.d.data, static_cast<float>(g.alpha), static_cast<float>(g.beta)};
  const auto& plan = plan_for(key_of(g), operands);
  check(enqueue(plan, plan.candidates[plan.chosen], operands));
}

template <class Out>
std::string Products::text(const training::Gemm<Bf16, Out>& g) {
  return text_of(key_of(g));
}

template void Products::multiply(const training::Gemm<Bf16, Bf16>&);
template void Products::multiply(const training::Gemm<Bf16, float>&);
template std::string Products::text(const training::Gemm<Bf16, Bf16>&);
template std::string Products::text(const training::Gemm<Bf16, float>&);

void Products::finish_tuning(Group& group) {
  tuning_ = false;
  bool runs_here = true;
  for (auto& [key, plan] : plans_) {
    auto algorithm = plan.candidates[plan.chosen];
    group.broadcast(std::as_writable_bytes(std::span(&algorithm, 1)), 0);
    runs_here = runs_here && fits(plan, algorithm);
    plan.candidates = {algorithm};
    plan.chosen = 0;
  }
  if (!group.all(runs_here)) {
    throw Unsupported(
        "an algorithm that rank 0 chose does not run on every rank; do GPU models or cuBLASLt versions differ?");
  }
}

std::vector<std::string> Products::describe() const {
  std::vector<std::string> lines;
  for (const auto& [key, plan] : plans_) {
    const auto& algorithm = plan.candidates[plan.chosen];
    lines.push_back(text_of(key) + ": algorithm " + std::to_string(number(algorithm, CUBLASLT_ALGO_CONFIG_ID)) +
                    ", tile " + std::to_string(number(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID)) + ", split " +
                    std::to_string(number(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM)));
  }
  return lines;
}

}  // namespace shakedown::cuda
