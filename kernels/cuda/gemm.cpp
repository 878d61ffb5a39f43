// Dense matrix product on the tensor cores (bf16, accumulated and scaled in f32) or in plain f32, through cuBLASLt.
// Random normal inputs, the same on every rank; rank 0 times the algorithms that the heuristic proposes and all ranks
// use its choice, so that all GPUs do the same work and must compute the same bits (metric "checksum").
#include <cuda_bf16.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

#include "kernels/cuda/data.hpp"
#include "kernels/cuda/gemm_check.hpp"
#include "kernels/cuda/gemm_plan.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/cuda/tuner.hpp"

namespace shakedown::cuda {

namespace {

constexpr double tuning_seconds = 0.3;
/// Between tuning and the first sample. A short series is a burst: right after the load of tuning it would show a GPU
/// at its power limit instead (bf16 8192: 686 to 725 TFLOPS without this rest, 771 to 836 with it, on 4 x H200).
constexpr auto rest = std::chrono::milliseconds(500);
constexpr std::uint64_t stream_a = 1, stream_b = 2;
constexpr int nan_byte = 0xff;  // in every byte of a poisoned output: a NaN in bf16 and in f32

std::size_t area(int rows, int columns) { return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns); }

/// Rank 0's answer to all: plain data, as cuBLASLt says of its algorithms.
struct Choice {
  std::uint64_t found;
  cublasLtMatmulAlgo_t algorithm;
};

class Gemm final : public Work {
 public:
  Gemm(const GemmSpec& spec, const Gpu& gpu)
      : spec_(spec),
        gpu_(gpu),
        plan_(spec),
        algorithm_(plan_.candidates().front()),
        a_(area(spec.m, spec.k) * size_of(spec.dtype)),
        b_(area(spec.k, spec.n) * size_of(spec.dtype)),
        c_(area(spec.m, spec.n) * size_of(spec.dtype)),
        workspace_(GemmPlan::workspace_bytes),
        scratch_(check_scratch(spec.n, spec.k) * sizeof(double)) {
    reset();
  }

  static std::size_t bytes_for(const GemmSpec& spec) {
    return (area(spec.m, spec.k) + area(spec.k, spec.n) + area(spec.m, spec.n)) * size_of(spec.dtype) +
           GemmPlan::workspace_bytes + check_scratch(spec.n, spec.k) * sizeof(double);
  }

  void connect(Peers& peers) override {
    Choice choice{};
    // Every rank times, so that every GPU is equally warm when the samples begin; rank 0's choice counts.
    choice = fastest();
    peers.broadcast(std::as_writable_bytes(std::span(&choice, 1)), 0);
    if (choice.found == 0) throw Unsupported("none of cuBLASLt's algorithms for " + key(spec_) + " runs on rank 0");
    const auto status = plan_.enqueue(choice.algorithm, operands(), gpu_.stream());
    gpu_.synchronize();
    if (status != CUBLAS_STATUS_SUCCESS) {
      throw Unsupported("the algorithm that rank 0 chose does not run here: " +
                        std::string(cublasLtGetStatusString(status)) + "; do GPU models or cuBLASLt versions differ?");
    }
    algorithm_ = choice.algorithm;
    std::this_thread::sleep_for(rest);
  }

  void enqueue() override { check(plan_.enqueue(algorithm_, operands(), gpu_.stream())); }

  void reset() override {
    write_normal(gpu_.stream(), a_.data(), spec_.dtype, area(spec_.m, spec_.k), stream_a);
    write_normal(gpu_.stream(), b_.data(), spec_.dtype, area(spec_.k, spec_.n), stream_b);
    gpu_.fill(c_, nan_byte);
    gpu_.synchronize();
  }

  Check verify() override {
    Check check = check_sampled_rows();
    const Check sums = check_signed_sums();
    check.compared += sums.compared;
    check.mismatched += sums.mismatched;
    if (check.first.empty()) check.first = sums.first;
    return check;
  }

  Cost cost() const override {
    return {2.0 * static_cast<double>(spec_.m) * static_cast<double>(spec_.n) * static_cast<double>(spec_.k), 0};
  }
  std::size_t bytes() const override { return bytes_for(spec_); }
  bool collective() const override { return false; }

  Metrics metrics() override {
    auto* const sum = gpu_.start_sum();
    add_checksum(gpu_.stream(), c_.data<const std::uint64_t>(), (c_.bytes() + 7) / 8, sum);
    const auto below_2_to_53 = gpu_.read(sum) & ((1ULL << 53) - 1);  // exact in a double
    return {{"checksum", static_cast<double>(below_2_to_53)}};
  }

  /// Adds k, which is sqrt(k) standard deviations of an element.
  void corrupt() override {
    const auto middle = area(spec_.m, spec_.n) / 2;
    if (spec_.dtype == DType::f32) {
      auto* const place = c_.data<float>() + middle;
      const float wrong = gpu_.read(place) + static_cast<float>(spec_.k);
      gpu_.write(place, &wrong, sizeof wrong);
    } else {
      auto* const place = c_.data<__nv_bfloat16>() + middle;
      const auto wrong = __float2bfloat16(__bfloat162float(gpu_.read(place)) + static_cast<float>(spec_.k));
      gpu_.write(place, &wrong, sizeof wrong);
    }
  }

 private:
  GemmOperands operands() const { return {a_.data(), b_.data(), c_.data(), workspace_.data()}; }

  Choice fastest() const {
    const auto& candidates = plan_.candidates();
    const auto try_candidate = [&](std::size_t i) {
      return plan_.enqueue(candidates[i], operands(), gpu_.stream()) == CUBLAS_STATUS_SUCCESS;
    };
    const auto index = pick_fastest(gpu_, candidates.size(), try_candidate, tuning_seconds);
    return index ? Choice{1, candidates[*index]} : Choice{};
  }

  /// Roundoffs: bf16 has 8 significant bits; tensor cores cut off what an f32 accumulator cannot hold, which costs
  /// twice the rounding error of f32 (Fasi et al., PeerJ Comput. Sci. 7, 2021).
  Product product() const {
    const bool f32 = spec_.dtype == DType::f32;
    return {spec_.dtype,
            plan_.a_by_rows(),
            a_.data(),
            b_.data(),
            c_.data(),
            spec_.m,
            spec_.n,
            spec_.k,
            f32 ? 0x1p-24 : 0x1p-8,
            f32 ? 0x1p-24 : 0x1p-23};
  }

  Check check_sampled_rows() const {
    const auto rows = sample_rows(spec_.m);
    const auto count = [&](unsigned long long report) {
      count_wrong_elements(gpu_.stream(), product(), rows, scratch_.data<double>(), gpu_.start_tally(), report);
      return gpu_.finish_tally();
    };
    return outcome(count, [this](unsigned long long index) {
      const auto n = static_cast<unsigned long long>(spec_.n);
      return "row " + std::to_string(index / n) + ", column " + std::to_string(index % n) + " is ";
    });
  }

  Check check_signed_sums() const {
    const auto count = [&](unsigned long long report) {
      count_wrong_sums_of(gpu_.stream(), product(), scratch_.data<double>(), gpu_.start_tally(), report);
      return gpu_.finish_tally();
    };
    return outcome(count, [this](unsigned long long index) {
      const auto per_row = static_cast<unsigned long long>(sums_per_row(spec_.n));
      const auto column = index % per_row * sum_width;
      const auto last = std::min(column + sum_width, static_cast<unsigned long long>(spec_.n)) - 1;
      return "row " + std::to_string(index / per_row) + ", signed sum of columns " + std::to_string(column) + " to " +
             std::to_string(last) + " is ";
    });
  }

  /// Runs a check; if anything is wrong, once more to learn the values at the first place.
  template <class Count, class Place>
  static Check outcome(const Count& count, const Place& place) {
    const auto tally = count(no_index);
    Check check{tally.compared, tally.mismatched, ""};
    if (check.mismatched == 0) return check;
    const auto detail = count(tally.first);
    char values[80];
    std::snprintf(values, sizeof values, "%.9g, expected %.9g", detail.got, detail.want);
    check.first = place(tally.first) + values;
    return check;
  }

  GemmSpec spec_;
  const Gpu& gpu_;
  GemmPlan plan_;
  cublasLtMatmulAlgo_t algorithm_;
  Buffer a_, b_, c_;
  Buffer workspace_, scratch_;
};

}  // namespace

std::unique_ptr<Work> make_gemm(const GemmSpec& spec, const Gpu& gpu) {
  if (spec.m <= 0 || spec.n <= 0 || spec.k <= 0) {
    throw std::invalid_argument("a matrix needs at least one row and one column");
  }
  if (spec.dtype != DType::bf16 && spec.dtype != DType::f32) {
    throw Unsupported("the cuda backend multiplies bf16 and f32 only, not " + std::string(name(spec.dtype)));
  }
  require_memory(Gemm::bytes_for(spec));
  return std::make_unique<Gemm>(spec, gpu);
}

}  // namespace shakedown::cuda
