// The search for the shape that this GPU multiplies fastest: first a coarse grid, in an order that covers it evenly
// however early the time is over, then ever smaller steps around the best ones, then the best in turns, because a GPU
// that has warmed up meanwhile would favour those that came early. The winner is measured like any other product. In
// the manner of MAMF (stas00/ml-engineering, maximum achievable matmul FLOPS).
#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/gemm_plan.hpp"
#include "kernels/cuda/gpu.hpp"
#include "kernels/cuda/known_data.hpp"
#include "kernels/reference.hpp"

namespace shakedown::cuda {

namespace {

constexpr std::array coarse_sides{1024, 2048, 4096, 6144, 8192, 12288, 16384};
constexpr std::array coarse_depths{1024, 2048, 4096, 8192, 16384};
constexpr int first_step = 1024, last_step = 128;
constexpr double warm_share = 0.1, coarse_share = 0.5, fine_share = 0.85;  // of the time, from its beginning
constexpr std::size_t finalists = 5;
constexpr int turns = 5;
/// Of one timing: some products in a row, so that their launches do not show.
constexpr double burst_seconds = 8e-3;

using Clock = std::chrono::steady_clock;

struct Shape {
  int m, n, k;
  double flops() const { return 2.0 * m * n * k; }
  auto operator<=>(const Shape&) const = default;
};

/// Rank 0's find to all.
struct Find {
  int m, n, k, tried;
};

class Search {
 public:
  Search(const GemmSearchSpec& spec, const Gpu& gpu)
      : spec_(spec), gpu_(gpu), type_(gemm_type(product({longest, longest, longest}))) {
    const auto largest = product({longest, longest, longest});
    const auto area = static_cast<std::size_t>(longest) * longest;
    scales_ = Buffer(GemmPlan::scale_bytes(largest, type_));
    a_ = Buffer(bytes_of(spec.dtype, area));
    b_ = Buffer(bytes_of(spec.dtype, area));
    c_ = Buffer(area * product_size_of(spec.dtype));
    workspace_ = Buffer(GemmPlan::workspace_bytes);
    if (scales_) gpu_.fill(scales_, type_.unit_scale);
    fill_normal(gpu_, a_, spec.dtype, area, 1);
    fill_normal(gpu_, b_, spec.dtype, area, 2);
    gpu_.synchronize();
  }

  /// Errors: Unsupported if no shape runs.
  Find run() {
    begun_ = Clock::now();
    while (spent() < warm_share) measure({8192, 8192, 8192});  // a cool GPU would flatter whatever comes first
    for (const auto& shape : grid()) {
      if (spent() > coarse_share && !rates_.empty()) break;
      rate(shape);
    }
    if (rates_.empty())
      throw Unsupported("cuBLASLt has no algorithm for any shape of " + std::string(name(spec_.dtype)));
    for (int step = first_step; step >= last_step && spent() < fine_share; step /= 2) climb(step);
    const auto best = best_in_turns();
    return {best.m, best.n, best.k, static_cast<int>(rates_.size())};
  }

 private:
  static constexpr int longest = GemmSearchSpec::longest;

  GemmSpec product(const Shape& s) const { return {spec_.dtype, s.m, s.n, s.k}; }
  double spent() const { return std::chrono::duration<double>(Clock::now() - begun_).count() / spec_.seconds; }

  /// Shuffled, always the same.
  static std::vector<Shape> grid() {
    std::vector<Shape> shapes;
    for (const int m : coarse_sides) {
      for (const int n : coarse_sides) {
        for (const int k : coarse_depths) shapes.push_back({m, n, k});
      }
    }
    for (std::size_t i = shapes.size() - 1; i > 0; --i) std::swap(shapes[i], shapes[reference::mix(i) % (i + 1)]);
    return shapes;
  }

  /// Flops per second with the favourite of cuBLASLt's heuristic, noted; 0 where it has none.
  double rate(const Shape& shape) {
    if (const auto known = rates_.find(shape); known != rates_.end()) return known->second;
    const double measured = measure(shape);
    if (measured > 0) rates_.emplace(shape, measured);
    return measured;
  }

  double measure(const Shape& shape) const try {
    const GemmPlan plan(product(shape), type_, scales_.data());
    const auto& favourite = plan.candidates().front();
    const auto seconds = [&](int repeats) {
      check(cudaEventRecord(begin_.get(), gpu_.stream()));
      for (int i = 0; i < repeats; ++i) {
        if (plan.enqueue(favourite, {a_.data(), b_.data(), c_.data(), workspace_.data()}, gpu_.stream()) !=
            CUBLAS_STATUS_SUCCESS) {
          return 0.0;
        }
      }
      check(cudaEventRecord(end_.get(), gpu_.stream()));
      check(cudaEventSynchronize(end_.get()));
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()));
      return static_cast<double>(milliseconds) * 1e-3;
    };
    if (!(seconds(1) > 0)) return 0;  // loads the code
    const double once = std::max(seconds(1), 1e-6);
    const int repeats = static_cast<int>(std::clamp(burst_seconds / once, 1.0, 1000.0));
    const double together = seconds(repeats);
    return together > 0 ? shape.flops() * repeats / together : 0;
  } catch (const Unsupported&) {
    return 0;
  }

  std::vector<Shape> best(std::size_t count) const {
    std::vector<std::pair<double, Shape>> order;
    for (const auto& [shape, rate] : rates_) order.emplace_back(rate, shape);
    std::sort(order.rbegin(), order.rend());
    std::vector<Shape> shapes;
    for (std::size_t i = 0; i < std::min(count, order.size()); ++i) shapes.push_back(order[i].second);
    return shapes;
  }

  /// From each of the best shapes in steps of this size along m, n and k, as long as that is faster.
  void climb(int step) {
    for (auto top : best(finalists)) {
      for (bool better = true; better && spent() < fine_share;) {
        better = false;
        for (int Shape::*side : {&Shape::m, &Shape::n, &Shape::k}) {
          for (const int by : {step, -step}) {
            auto next = top;
            next.*side += by;
            if (next.*side < last_step || next.*side > longest || spent() > fine_share) continue;
            if (rates_.count(next) > 0 || !(rate(next) > rates_.at(top))) continue;
            top = next;
            better = true;
          }
        }
      }
    }
  }

  Shape best_in_turns() const {
    const auto shapes = best(finalists);
    std::vector<std::vector<double>> rates(shapes.size());
    for (int turn = 0; turn < turns; ++turn) {
      for (std::size_t i = 0; i < shapes.size(); ++i) rates[i].push_back(measure(shapes[i]));
    }
    std::size_t winner = 0;
    for (auto& of_shape : rates) std::sort(of_shape.begin(), of_shape.end());
    for (std::size_t i = 1; i < shapes.size(); ++i) {
      if (rates[i][turns / 2] > rates[winner][turns / 2]) winner = i;
    }
    return shapes[winner];
  }

  GemmSearchSpec spec_;
  const Gpu& gpu_;
  GemmType type_;
  Buffer scales_, a_, b_, c_, workspace_;
  Event begin_ = make_event(), end_ = make_event();
  Clock::time_point begun_;
  std::map<Shape, double> rates_;
};

class GemmSearch final : public Work {
 public:
  GemmSearch(const GemmSearchSpec& spec, CudaDevice& device) : spec_(spec), device_(device) {}

  void connect(Group& group) override {
    std::string trouble;
    const auto attempt = [&](const auto& step) {
      try {
        if (trouble.empty()) step();
      } catch (const Unsupported& reason) {
        trouble = reason.what();
      }
    };
    // On every rank, for equal warmth; rank 0's find counts.
    attempt([&] { find_ = Search(spec_, device_.gpu()).run(); });
    agree(group, trouble);
    group.broadcast(std::as_writable_bytes(std::span(&find_, 1)), 0);
    attempt([&] { best_ = make(GemmSpec{spec_.dtype, find_.m, find_.n, find_.k}, device_); });
    agree(group, trouble);
    best_->connect(group);
  }

  void enqueue() override { best_->enqueue(); }
  void reset() override { best_->reset(); }
  void stage(int repeats) override { best_->stage(repeats); }
  Check verify() override { return best_->verify(); }
  Cost cost() const override { return best_->cost(); }
  std::size_t bytes() const override { return best_ ? best_->bytes() : footprint(spec_); }
  bool collective() const override { return false; }
  std::optional<Bursts> bursts() const override { return best_->bursts(); }
  void corrupt() override { best_->corrupt(); }

  std::string chosen() const override {
    return std::to_string(find_.m) + " x " + std::to_string(find_.n) + " x " + std::to_string(find_.k) + " of " +
           std::to_string(find_.tried) + " shapes";
  }

  Metrics metrics() override {
    auto metrics = best_->metrics();
    metrics.insert(metrics.end(), {{"m", find_.m}, {"n", find_.n}, {"k", find_.k}, {"shapes_tried", find_.tried}});
    return metrics;
  }

 private:
  /// Unsupported on all ranks if it is on one, before the next step, which needs all.
  static void agree(Group& group, const std::string& trouble) {
    if (group.all(trouble.empty())) return;
    throw Unsupported(trouble.empty() ? "another rank cannot" : trouble);
  }

  GemmSearchSpec spec_;
  CudaDevice& device_;
  Find find_{};
  std::unique_ptr<Work> best_;
};

}  // namespace

std::unique_ptr<Work> make(const GemmSearchSpec& spec, CudaDevice& device) {
  if (!(spec.seconds > 0)) throw std::invalid_argument("a search needs some time");
  const auto largest = spec.largest();
  const auto type = gemm_type(largest);
  require_capability(spec.dtype, type.capability, device.gpu().ordinal());
  require_memory(footprint(spec) + GemmPlan::scale_bytes(largest, type) + GemmPlan::workspace_bytes);
  return std::make_unique<GemmSearch>(spec, device);
}

}  // namespace shakedown::cuda
