// The products of a training step through cuBLASLt. Each distinct product has one plan, which is created at its first
// use and kept. The fastest algorithm of a plan is measured once, on the real operands, and then fixed. Before that,
// cuBLASLt's first proposal is used.
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
#include "kernels/transformer/quantize.hpp"
#include "kernels/tuner.hpp"

namespace shakedown::cuda {

/// Describes a row-major product D = A B for cuBLASLt. In column-major order it is D' = B' A', so B comes first.
template <class Out>
MatmulShape matmul_shape(const training::Gemm<Bf16, Out>&);

template <class Out>
MatmulShape matmul_shape(const training::QuantizedGemm<Bf16, Out>&);

/// Errors: Unsupported if this GPU, or cuBLASLt of this build, has no products of quantized rows.
void require_quantized_products(const Gpu&);

/// Returns "8192 x 4608 x 3776 NT bf16 bias": D's rows and columns, the length of the sum, which of A and B is
/// transposed, types and additions; "fp8" for quantized rows, "exact" if their sums are accumulated in f32.
std::string text(const MatmulShape&);

class Products {
 public:
  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

  explicit Products(const Gpu&);

  /// Sets the workspace: workspace_bytes of device memory, aligned to 256 bytes.
  void use_workspace(void* workspace) { workspace_ = workspace; }

  /// Queues the product; D has the type Out. Errors: Unsupported if cuBLASLt has no algorithm for it.
  template <class Out>
  void multiply(const training::Gemm<Bf16, Out>&);
  /// Queues a product of rows of 8-bit floats, which cuBLASLt has for Hopper; D is bf16 or f32.
  template <class Out>
  void multiply(const training::QuantizedGemm<Bf16, Out>&);

  /// Starts tuning: every product of this share without a plan times its candidates, or compares its remembered choice
  /// with the most likely candidate in one turn. D is then invalid if C and D are the same matrix.
  void start_tuning(const Choices& remembered = {}, const TuningShare& = {});
  /// Ends tuning. All ranks adopt the choice of the rank that tuned a product, so that they do the same work and get
  /// the same bits; the choices are added to `chosen`, and how
  /// they divide D to `tilings`. Returns false if a remembered choice is slower on the slowest
  /// rank; the caller must then tune again without remembered choices. Collective. Errors: Unsupported, on all ranks
  /// together; std::runtime_error if ranks have used different products.
  bool finish_tuning(Group&, Choices* chosen = nullptr, Tilings* tilings = nullptr);

  struct Plan {
    Matmul product;
    std::vector<MatmulAlgorithm> candidates;
    std::size_t chosen = 0;
    std::optional<std::array<double, 2>> turn = std::nullopt;  // seconds of the remembered choice, and of the most
                                                               // likely candidate
    int owner = 0;                                             // rank whose choice holds
  };
  const std::map<MatmulShape, Plan>& plans() const { return plans_; }

 private:
  Plan make_plan(const MatmulShape&) const;
  Plan& plan_for(const MatmulShape&, const MatmulOperands&);
  void run(const MatmulShape&, const MatmulOperands&);

  const Gpu& gpu_;
  BlasHandle blas_;
  void* workspace_ = nullptr;
  bool tuning_ = false;
  TuningShare share_;
  Choices remembered_;
  std::map<MatmulShape, Plan> plans_;
};

}  // namespace shakedown::cuda
