#include "kernels/transformer/cuda/products.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <span>
#include <stdexcept>
#include <type_traits>

#include "kernels/cuda/gemm_plan.hpp"
#include "kernels/cuda/gemm_type.hpp"
#include "kernels/cuda/tiling.hpp"
#include "kernels/cuda/tuner.hpp"

namespace shakedown::cuda {

namespace {

constexpr std::uintptr_t best_alignment = 256;
constexpr int max_proposals = 12;  // of cuBLASLt for one product
constexpr Tuning product_tuning{.seconds = 0.25, .sustained = 0.12};

std::uint32_t alignment_of(const void* address) {
  const auto value = std::bit_cast<std::uintptr_t>(address) | best_alignment;
  return static_cast<std::uint32_t>(value & (~value + 1));
}

template <class Out>
constexpr cudaDataType_t output_type = std::is_same_v<Out, float> ? CUDA_R_32F : CUDA_R_16BF;

/// True for a product of an adapter, which is limited by memory bandwidth if enough multiprocessors participate.
bool is_thin(const MatmulShape& shape) {
  constexpr std::uint64_t max_thin_extent = 512;
  return std::min(shape.d.rows, shape.d.cols) <= max_thin_extent;
}

/// Adds candidates with a split sum. A thin product has fewer tiles than the GPU has multiprocessors, and cuBLASLt
/// seldom proposes to split the sum. The partial sums are added in f32 and in a fixed order, as in its own proposals.
void add_splits(const Matmul& product, std::vector<MatmulAlgorithm>& candidates) {
  constexpr std::size_t proposals = 4;  // the number of proposals that are also tried with a split sum
  const auto own = candidates;
  for (const std::uint32_t parts : {2, 3, 4, 6, 8}) {
    for (std::size_t i = 0; i < std::min(own.size(), proposals); ++i) {
      if (const auto algorithm = product.split(own[i], parts)) candidates.push_back(*algorithm);
    }
  }
}

/// Returns a key with all properties that distinguish products for cuBLASLt, except their types.
std::string choice_key(const MatmulShape& s) {
  std::string key = "product " + text(s) + fmt::format(" strides {} {} {}", s.b.stride, s.a.stride, s.d.stride);
  for (const auto bytes : s.alignment.value_or(std::array<std::uint32_t, 4>{})) key += fmt::format(" {}", bytes);
  return key;
}

}  // namespace

template <class Out>
MatmulShape matmul_shape(const training::Gemm<Bf16, Out>& g) {
  const auto inner = g.a_transposed ? g.a.rows : g.a.cols;
  // A row-major matrix is a column-major one of `cols` rows.
  const auto matrix = [](cudaDataType_t type, bool transposed, std::uint64_t rows, std::uint64_t cols,
                         std::uint64_t stride) {
    return transposed ? MatmulMatrix{type, rows, cols, stride} : MatmulMatrix{type, cols, rows, stride};
  };
  MatmulShape shape{CUBLAS_COMPUTE_32F,
                    CUDA_R_32F,
                    matrix(CUDA_R_16BF, g.b_transposed, inner, g.d.cols, g.b.stride),
                    matrix(CUDA_R_16BF, g.a_transposed, g.d.rows, inner, g.a.stride),
                    matrix(output_type<Out>, false, g.d.rows, g.d.cols, g.d.stride),
                    g.b_transposed,
                    g.a_transposed,
                    Products::workspace_bytes};
  shape.adds = g.beta != 0;
  shape.bias = g.bias != nullptr;
  shape.gelu = g.gelu;
  shape.alignment = {alignment_of(g.b.data), alignment_of(g.a.data), alignment_of(g.c != nullptr ? g.c : g.d.data),
                     alignment_of(g.d.data)};
  return shape;
}
template MatmulShape matmul_shape(const training::Gemm<Bf16, Bf16>&);
template MatmulShape matmul_shape(const training::Gemm<Bf16, float>&);

template <class Out>
MatmulShape matmul_shape(const training::QuantizedGemm<Bf16, Out>& g) {
  const auto type = [](const training::QuantizedRows& rows) {
    return rows.type == Float8::e4m3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
  };
  const auto &a = g.a.values, &b = g.b.values;
  MatmulShape shape{CUBLAS_COMPUTE_32F,
                    CUDA_R_32F,
                    {type(g.b), b.cols, b.rows, b.stride},
                    {type(g.a), a.cols, a.rows, a.stride},
                    {output_type<Out>, g.d.cols, g.d.rows, g.d.stride},
                    true,
                    false,
                    Products::workspace_bytes};
  shape.adds = g.c != nullptr;
  shape.bias = g.bias != nullptr;
  shape.fast_accumulation = g.accumulation == training::Accumulation::fast;
  shape.a_scale = shape.b_scale = ScaleMode::row;
  shape.a_scales = g.b.scales;
  shape.b_scales = g.a.scales;
  shape.alignment = {alignment_of(b.data), alignment_of(a.data), alignment_of(g.c != nullptr ? g.c : g.d.data),
                     alignment_of(g.d.data)};
  return shape;
}
template MatmulShape matmul_shape(const training::QuantizedGemm<Bf16, Bf16>&);
template MatmulShape matmul_shape(const training::QuantizedGemm<Bf16, float>&);

void require_quantized_products(const Gpu& gpu) {
  GemmSpec product{DType::fp8_e4m3, 16, 16, 16};
  product.scaling = Scaling::row;
  require_capability(product.dtype, gemm_type(product).capability, gpu.ordinal());
}

std::string text(const MatmulShape& shape) {
  return fmt::format(
      "{} x {} x {} {}{}{}{}{}{}{}{}", shape.d.cols, shape.d.rows, shape.a_transposed ? shape.a.rows : shape.a.cols,
      shape.b_transposed ? 'T' : 'N', shape.a_transposed ? 'T' : 'N', shape.d.type == CUDA_R_32F ? " f32" : " bf16",
      shape.a_scale == ScaleMode::none ? "" : " fp8", shape.fast_accumulation.value_or(true) ? "" : " exact",
      shape.bias ? " bias" : "", shape.adds ? " add" : "", shape.gelu ? " gelu" : "");
}

Products::Products(const Gpu& gpu) : gpu_(gpu), blas_(make_blas()) {}

Products::Plan Products::make_plan(const MatmulShape& shape) const {
  Plan plan{Matmul(blas_.get(), shape), {}};
  auto status = CUBLAS_STATUS_SUCCESS;
  plan.candidates = plan.product.propose(max_proposals, status);
  if (is_thin(shape)) add_splits(plan.product, plan.candidates);
  if (plan.candidates.empty()) {
    throw Unsupported("cuBLASLt has no algorithm for the product " + text(shape) + " (" +
                      blas().cublasLtGetStatusString(status) + ")");
  }
  return plan;
}

Products::Plan& Products::plan_for(const MatmulShape& shape, const MatmulOperands& operands) {
  const auto known = plans_.find(shape);
  if (known != plans_.end()) return known->second;
  auto& plan = plans_.emplace(shape, make_plan(shape)).first->second;
  if (!tuning_) return plan;
  if (const auto found = remembered_.find(choice_key(shape)); found != remembered_.end()) {
    const auto before = candidate_from(found->second);
    const bool runs = before && plan.product.runs(before->algorithm);
    if (runs) plan.candidates.push_back(before->algorithm);
    plan.chosen = plan.candidates.size() - 1;
    const auto turn = one_turn(gpu_, 2, [&](std::size_t i) {
      const auto& algorithm = i == 0 ? plan.candidates.back() : plan.candidates.front();
      return (i == 1 || runs) && plan.product.enqueue(algorithm, operands, gpu_.stream()) == CUBLAS_STATUS_SUCCESS;
    });
    plan.turn = {turn[0], turn[1]};
    return plan;
  }
  plan.owner = share_.owner(plans_.size());
  if (plan.owner != share_.rank) return plan;
  const auto try_candidate = [&](std::size_t i) {
    return plan.product.enqueue(plan.candidates[i], operands, gpu_.stream()) == CUBLAS_STATUS_SUCCESS;
  };
  plan.chosen = pick_fastest(gpu_, plan.candidates.size(), try_candidate, product_tuning).value_or(0);
  return plan;
}

template <class Out>
void Products::multiply(const training::Gemm<Bf16, Out>& g) {
  const auto* const c = g.c != nullptr ? g.c : g.d.data;
  const MatmulOperands operands{g.b.data, g.a.data, c, g.d.data, workspace_, g.bias, g.alpha, g.beta};
  run(matmul_shape(g), operands);
}
template void Products::multiply(const training::Gemm<Bf16, Bf16>&);
template void Products::multiply(const training::Gemm<Bf16, float>&);

template <class Out>
void Products::multiply(const training::QuantizedGemm<Bf16, Out>& g) {
  const auto* const c = g.c != nullptr ? g.c : g.d.data;
  run(matmul_shape(g),
      {g.b.values.data, g.a.values.data, c, g.d.data, workspace_, g.bias, 1, g.c != nullptr ? 1. : 0.});
}
template void Products::multiply(const training::QuantizedGemm<Bf16, Bf16>&);
template void Products::multiply(const training::QuantizedGemm<Bf16, float>&);

void Products::run(const MatmulShape& shape, const MatmulOperands& operands) {
  const auto& plan = plan_for(shape, operands);
  check(plan.product.enqueue(plan.candidates[plan.chosen], operands, gpu_.stream()));
}

void Products::start_tuning(const Choices& remembered, const TuningShare& share) {
  tuning_ = true;
  remembered_ = remembered;
  share_ = share;
}

bool Products::finish_tuning(Group& group, Choices* chosen, Tilings* tilings) {
  tuning_ = false;
  // The loop below is collective for each plan. Ranks with different plans would wait for each other forever.
  std::string keys;
  for (const auto& [shape, plan] : plans_) keys += choice_key(shape) + (plan.turn ? " remembered\n" : "\n");
  if (!group.all_same(keys)) {
    throw std::runtime_error("ranks have tuned different products; do their libraries differ?");
  }
  const auto lost = std::erase_if(plans_, [&](const auto& entry) {
    const auto& turn = entry.second.turn;
    return turn && !still_best(group, (*turn)[0], (*turn)[1]);
  });
  if (lost > 0) return false;
  bool runs_here = true;
  for (auto& [shape, plan] : plans_) {
    auto algorithm = plan.candidates[plan.chosen];
    group.broadcast(std::as_writable_bytes(std::span(&algorithm, 1)), plan.owner);
    runs_here = runs_here && plan.product.runs(algorithm);
    plan.candidates = {algorithm};
    plan.chosen = 0;
    plan.turn.reset();
    if (chosen != nullptr) (*chosen)[choice_key(shape)] = to_text({0, 0, algorithm});
    // D in row-major order is the transposed product of cuBLASLt.
    const auto tiling = tiling_of(algorithm, shape, gpu_.multiprocessors());
    if (tilings != nullptr && tiling) (*tilings)[choice_key(shape)] = tiling->transposed();
  }
  if (!group.all(runs_here)) {
    throw Unsupported(
        "an algorithm that one rank chose does not run on every rank; do GPU models or cuBLASLt versions differ?");
  }
  return true;
}

}  // namespace shakedown::cuda
