// The products of a training step through cuBLASLt: one plan per distinct product, made when it first occurs and kept.
// Which algorithm is fastest is measured once, on the real operands, and then frozen; until then it is cuBLASLt's first
// proposal.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/group.hpp"
#include "kernels/cuda/gpu.hpp"
#include "kernels/cuda/matmul.hpp"
#include "kernels/device.hpp"
#include "kernels/transformer/cuda/kernels.hpp"

namespace shakedown::cuda {

/// A row-major product D = A B as cuBLASLt takes it: column-major it is D' = B' A', so B comes first.
template <class Out>
MatmulShape matmul_shape(const training::Gemm<Bf16, Out>&);

/// "8192 x 4608 x 3776 NT bf16 bias": D's rows and columns, the sum's length, and which of A and B is transposed.
std::string text(const MatmulShape&);

/// How much is tried to find the fastest algorithm of one product.
struct ProductTuning {
  int candidates = 12;      // of cuBLASLt's proposals, the likelier first
  double seconds = 0.25;    // in turns
  double sustained = 0.12;  // and each of the closest alone
};

class Products {
 public:
  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

  explicit Products(const Gpu&, const ProductTuning& = {});

  /// workspace_bytes of device memory, aligned to 256 bytes.
  void use_workspace(void* workspace) { workspace_ = workspace; }

  /// Queues the product; D has the type Out. Errors: Unsupported if cuBLASLt has no algorithm for it.
  template <class Out>
  void multiply(const training::Gemm<Bf16, Out>&);

  /// From here on every product that has no plan yet times its candidates, or one turn of what is remembered of it
  /// against the likeliest. D then holds no result where C is D itself.
  void start_tuning(const Choices& remembered = {});
  /// Ends that; all ranks take what rank 0 chose, so that they do the same work and get the same bits. Notes that in
  /// `chosen`. False: by something that was remembered the slowest rank loses; tune again without it. Collective.
  /// Errors: Unsupported, on all ranks together; std::runtime_error if ranks have met different products.
  bool finish_tuning(Group&, Choices* chosen = nullptr);

  struct Plan {
    Matmul product;
    std::vector<MatmulAlgorithm> candidates;
    std::size_t chosen = 0;
    std::optional<std::array<double, 2>> turn = std::nullopt;  // of what was remembered, and of the likeliest
  };
  const std::map<MatmulShape, Plan>& plans() const { return plans_; }

 private:
  Plan make_plan(const MatmulShape&) const;
  Plan& plan_for(const MatmulShape&, const MatmulOperands&);

  const Gpu& gpu_;
  ProductTuning tuning_settings_;
  BlasHandle blas_;
  void* workspace_ = nullptr;
  bool tuning_ = false;
  Choices remembered_;
  std::map<MatmulShape, Plan> plans_;
};

}  // namespace shakedown::cuda
