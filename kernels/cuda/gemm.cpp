// Dense matrix product through cuBLASLt, in every type that tensor cores support, and in plain f32 and f64. The inputs
// are random normal and the same on every rank. Rank 0 times the algorithms that the heuristic proposes, and all ranks
// use its choice. All GPUs therefore do the same work and must compute the same bits (metric "checksum").
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/gemm_check.hpp"
#include "kernels/cuda/gemm_plan.hpp"
#include "kernels/cuda/known_data.hpp"
#include "kernels/cuda/tuner.hpp"
#include "kernels/gemm_scales.hpp"
#include "kernels/gemm_tuning.hpp"

namespace shakedown::cuda {

namespace {

constexpr std::uint64_t stream_a = 1, stream_b = 2;

std::size_t area(int rows, int columns) { return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns); }

/// Rank 0's choice, sent to all ranks.
struct Choice {
  std::uint64_t found;
  GemmCandidate candidate;
};

class Gemm final : public Work {
 public:
  Gemm(const GemmSpec& spec, const GemmType& type, const Gpu& gpu, Device& device)
      : spec_(spec),
        type_(type),
        gpu_(gpu),
        device_(device),
        factors_(gemm_scales(spec)),
        scales_(GemmPlan::scale_bytes(spec, type)),
        plan_(spec, type, scales_.data()),
        chosen_(plan_.candidates().front()),
        a_(bytes_of(spec.dtype, area(spec.m, spec.k))),
        b_(bytes_of(spec.dtype, area(spec.k, spec.n))),
        trail_(area(spec.m, spec.n) * product_size_of(spec.dtype)),
        c_(trail_.room()),
        workspace_(GemmPlan::workspace_bytes),
        scratch_(check_scratch(spec.n, spec.k) * sizeof(double)) {
    write_data();
  }

  static std::size_t bytes_for(const GemmSpec& spec, const GemmType& type) {
    return footprint(spec) + GemmPlan::scale_bytes(spec, type) + GemmPlan::workspace_bytes +
           check_scratch(spec.n, spec.k) * sizeof(double);
  }

  void connect(Group& group) override {
    // All ranks time the candidates, so that all GPUs are equally warm when the samples begin; only rank 0's choice is
    // used.
    const auto known = device_.choices().find(key(spec_));
    auto choice = known != device_.choices().end() ? chosen_before(known->second) : remembered(group);
    if (known == device_.choices().end() && choice.found == 0) choice = fastest();
    group.broadcast(std::as_writable_bytes(std::span(&choice, 1)), 0);
    if (choice.found == 0) {
      throw Unsupported(known != device_.choices().end()
                            ? "the stored algorithm for " + key(spec_) + " does not run on rank 0"
                            : "none of cuBLASLt's algorithms for " + key(spec_) + " runs on rank 0");
    }
    const auto status = plan_.enqueue(choice.candidate, operands(), gpu_.stream());
    gpu_.synchronize();
    if (status != CUBLAS_STATUS_SUCCESS) {
      throw Unsupported(
          "the algorithm that rank 0 chose does not run here: " + std::string(blas().cublasLtGetStatusString(status)) +
          "; do GPU models or cuBLASLt versions differ?");
    }
    chosen_ = choice.candidate;
    device_.choices()[key(spec_)] = to_text(chosen_);
    if (const auto tiling = plan_.tiling(chosen_, gpu_.multiprocessors())) device_.tilings()[key(spec_)] = *tiling;
  }

  void enqueue() override {
    trail_.next();
    check(plan_.enqueue(chosen_, operands(), gpu_.stream()));
  }

  /// An idle GPU keeps its result.
  void stage(int repeats) override {
    if (!stands_by()) stage_trail(gpu_, c_, trail_, repeats, nan_byte);
  }

  /// An idle GPU multiplies once outside of all timing, so that its result can be checked and compared as well.
  void reset() override {
    gpu_.fill(c_, nan_byte);  // the inputs are still intact: nothing writes to them, and the check reads them
    trail_.restart();
    if (stands_by()) enqueue();
    gpu_.synchronize();
  }

  Check verify() override {
    worst_ = 0;
    Check check = check_sampled_rows();
    const Check sums = check_signed_sums();
    check.compared += sums.compared;
    check.mismatched += sums.mismatched;
    if (check.first.empty()) check.first = sums.first;
    check_trail(gpu_, c_, trail_, check);
    return check;
  }

  std::optional<std::uint64_t> digest() const override { return digest_of(gpu_, last_output(c_, trail_)); }
  bool runs_in_connect() const override { return true; }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return bytes_for(spec_, type_); }
  bool collective() const override { return false; }
  std::optional<Bursts> bursts() const override {
    return spec_.load == Load::burst ? std::optional(gemm_bursts) : std::nullopt;
  }
  std::optional<int> credited_rank(int own_rank) const override {
    return stands_by() ? std::nullopt : std::optional(own_rank);
  }

  /// Returns the checksum, the chosen algorithm, and the largest error of an element or sum as a fraction of its
  /// tolerance.
  Metrics metrics() override {
    auto* const sum = gpu_.start_sum();
    const auto c = last_output(c_, trail_);
    add_checksum(gpu_, c.data<const std::uint64_t>(), (c.bytes() + 7) / 8, sum);
    const auto below_2_to_53 = gpu_.read(sum) & ((1ULL << 53) - 1);  // exact in a double
    Metrics metrics{{"checksum", static_cast<double>(below_2_to_53)}, {"tolerance_used", static_cast<double>(worst_)}};
    for (auto& entry : GemmPlan::describe(chosen_)) metrics.push_back(std::move(entry));
    metrics.emplace_back("a_by_rows", plan_.a_by_rows(chosen_) ? 1 : 0);
    if (spec_.data == MatrixData::normal) {
      metrics.emplace_back("least_error_found", least_error_found(u_out_of(type_, spec_.k), type_.u_acc, spec_.k));
    }
    return metrics;
  }

  void corrupt() override {
    switch (type_.output) {
      case CUDA_R_64F: return damage<double>([](double c) { return c; }, [](double c) { return c; });
      case CUDA_R_32F: return damage<float>([](float c) { return c; }, [](float c) { return c; });
      case CUDA_R_16F: return damage<__half>(__half2float, __float2half);
      case CUDA_R_16BF: return damage<__nv_bfloat16>(__bfloat162float, __float2bfloat16);
      case CUDA_R_32I: return damage<std::int32_t>([](int c) { return c; }, [](int c) { return c; });
      default: throw std::logic_error("bits of an output of this type cannot be flipped");
    }
  }

 private:
  GemmOperands operands() const { return {a_.data(), b_.data(), last_output(c_, trail_).data(), workspace_.data()}; }

  bool stands_by() const { return spec_.active && *spec_.active != gpu_.local_rank(); }

  void write_data() const {
    if (factors_.count > 0) {
      const auto begin = factors_.b_begin * sizeof(float), end = scales_.bytes();
      const View all = scales_;
      fill_scales(gpu_, all.part(0, begin), factors_.a, area(spec_.m, 1), area(spec_.k, 1));
      fill_scales(gpu_, all.part(begin, end - begin), factors_.b, area(spec_.n, 1), area(spec_.k, 1));
    } else if (scales_) {
      const auto rows = static_cast<std::size_t>(std::max(spec_.m, spec_.n));
      const auto blocks = static_cast<std::uint64_t>((spec_.k + type_.block - 1) / type_.block);
      fill_scales(gpu_, scales_, rows, {blocks}, type_.unit_scale, type_.scale_step);
    }
    if (spec_.data == MatrixData::zeros) {
      gpu_.fill(a_, 0);
      gpu_.fill(b_, 0);
    } else {
      fill_normal(gpu_, a_, spec_.dtype, area(spec_.m, spec_.k), stream_a);
      fill_normal(gpu_, b_, spec_.dtype, area(spec_.k, spec_.n), stream_b);
    }
    gpu_.fill(c_, nan_byte);
    gpu_.synchronize();
  }

  /// Adds k to one element, which is sqrt(k) standard deviations of it.
  template <class T, class Read, class Round>
  void damage(const Read& read, const Round& round) {
    auto* const place = last_output(c_, trail_).data<T>() + area(spec_.m, spec_.n) / 2;
    const auto right = read(gpu_.read(place));
    const T wrong = round(right + static_cast<decltype(right)>(spec_.k));
    gpu_.write(place, &wrong, sizeof wrong);
  }

  Choice fastest() const {
    const auto& candidates = plan_.candidates();
    const auto try_candidate = [&](std::size_t i) {
      return plan_.enqueue(candidates[i], operands(), gpu_.stream()) == CUBLAS_STATUS_SUCCESS;
    };
    const auto index = pick_fastest(gpu_, candidates.size(), try_candidate, gemm_tuning(spec_.dtype, spec_.load));
    return index ? Choice{1, candidates[*index]} : Choice{};
  }

  /// Returns the choice of an earlier run if it is still no slower than the heuristic's favourite. Collective if there
  /// is an earlier choice.
  Choice remembered(Group& group) const {
    const auto found = device_.remembered().find(key(spec_));
    if (found == device_.remembered().end()) return {};
    const auto before = chosen_before(found->second);
    const auto try_candidate = [&](std::size_t i) {
      if (i == 0 && before.found == 0) return false;
      const auto& candidate = i == 0 ? before.candidate : plan_.candidates().front();
      return plan_.enqueue(candidate, operands(), gpu_.stream()) == CUBLAS_STATUS_SUCCESS;
    };
    const auto seconds = one_turn(gpu_, 2, try_candidate, bursts());
    return still_best(group, seconds[0], seconds[1]) ? before : Choice{};
  }

  Choice chosen_before(const std::string& text) const {
    const auto candidate = candidate_from(text);
    return candidate && plan_.runs(*candidate) ? Choice{1, *candidate} : Choice{};
  }

  Product product() const {
    const void* const c = last_output(c_, trail_).data();
    return {spec_.dtype, plan_.a_by_rows(chosen_), a_.data(),   b_.data(),  c,         spec_.m, spec_.n,
            spec_.k,     u_out_of(type_, spec_.k), type_.u_acc, factors_.a, factors_.b};
  }

  Check check_sampled_rows() {
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

  Check check_signed_sums() {
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

  /// Runs a check. After a mismatch, runs it again to get the values at the first mismatch.
  template <class Count, class Place>
  Check outcome(const Count& count, const Place& place) {
    const auto tally = count(no_index);
    worst_ = std::max(worst_, std::bit_cast<float>(tally.worst));
    Check check{tally.compared, tally.mismatched, ""};
    if (check.mismatched == 0) return check;
    const auto detail = count(tally.first);
    check.first = place(tally.first) + fmt::format("{:.9g}, expected {:.9g}", detail.got, detail.want);
    return check;
  }

  GemmSpec spec_;
  GemmType type_;
  const Gpu& gpu_;
  Device& device_;
  GemmScales factors_;
  Buffer scales_;
  GemmPlan plan_;
  GemmCandidate chosen_;
  Buffer a_, b_;
  Trail trail_;
  Buffer c_;
  Buffer workspace_, scratch_;
  float worst_ = 0;  // of the last check
};

}  // namespace

std::unique_ptr<Work> make(const GemmSpec& spec, CudaDevice& device) {
  const Gpu& gpu = device.gpu();
  if (spec.m <= 0 || spec.n <= 0 || spec.k <= 0) {
    throw std::invalid_argument("a matrix needs at least one row and one column");
  }
  if (spec.active && (*spec.active < 0 || *spec.active >= gpu.local_size())) {
    throw Unsupported("this host has only " + std::to_string(gpu.local_size()) + " ranks");
  }
  const auto type = gemm_type(spec);
  require_capability(spec.dtype, type.capability, gpu.ordinal());
  require_memory(Gemm::bytes_for(spec, type));
  return std::make_unique<Gemm>(spec, type, gpu, device);
}

}  // namespace shakedown::cuda
