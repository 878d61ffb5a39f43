// Runs equal quanta of work on the thread that starts all other work, and measures how much longer than usual each one
// takes. The code of jitter is the same on all backends, because every rank has a CPU.
#include "kernels/ops/jitter.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/core_wait.hpp"
#include "base/statistics.hpp"
#include "kernels/device.hpp"

namespace shakedown {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// A recurrence in which each number depends on the previous number (Knuth, MMIX).
struct Chain {
  std::uint64_t factor = 6364136223846793005ULL, addend = 1442695040888963407ULL;

  std::uint64_t next(std::uint64_t x) const { return x * factor + addend; }
  /// Returns the number after `steps` steps, computed by repeated squaring.
  std::uint64_t ahead(std::uint64_t x, std::uint64_t steps) const {
    for (Chain leap = *this; steps > 0; steps /= 2) {
      if (steps % 2 == 1) x = leap.next(x);
      leap = {leap.factor * leap.factor, leap.addend * leap.factor + leap.addend};
    }
    return x;
  }
};

class Jitter final : public Work {
 public:
  Jitter() { quanta_.reserve(max_operations * JitterSpec::quanta); }

  void enqueue() override {
    const auto before = seconds_waited_for_core();
    for (int i = 0; i < JitterSpec::quanta; ++i) {
      const auto begin = Clock::now();
      for (std::uint64_t step = 0; step < steps_per_quantum; ++step) state_ = chain_.next(state_);
      if (quanta_.size() < quanta_.capacity()) quanta_.push_back(seconds_since(begin));
    }
    const auto after = seconds_waited_for_core();
    if (before && after) waited_ += *after - *before;
  }

  void stage(int repeats) override { announced_ += static_cast<std::uint64_t>(repeats); }

  void reset() override {
    state_ = 0;
    announced_ = 0;
    waited_ = 0;
    quanta_.clear();
  }

  Check verify() override {
    Checker checker;
    if (announced_ > 0) {
      checker.expect_equal(0, state_, chain_.ahead(0, announced_ * JitterSpec::quanta * steps_per_quantum));
    }
    return checker.result();
  }

  Cost cost() const override { return shakedown::cost(JitterSpec{}); }
  std::size_t bytes() const override { return 0; }
  bool collective() const override { return false; }
  bool on_processor() const override { return true; }
  void corrupt() override { state_ ^= 1; }

  /// Returns metrics of the time of quanta in excess of the lower quartile. Only quanta that frequency steps of the CPU
  /// cannot explain count as stolen time.
  Metrics metrics() override {
    if (quanta_.empty()) return {};
    constexpr double clock_steps = 1.2;
    const double usual = quantile(quanta_, 0.25);
    double all = 0, stolen = 0, longest = 0;
    for (const double quantum : quanta_) {
      all += quantum;
      if (quantum > clock_steps * usual) stolen += quantum - usual;
      longest = std::max(longest, quantum - usual);
    }
    Metrics found{
        {"longest_gap_us", longest * 1e6}, {"quantum_p99_us", quantile(quanta_, 0.99) * 1e6}, {"stolen", stolen / all}};
    if (seconds_waited_for_core()) found.emplace_back("waited", std::min(waited_ / all, 1.0));
    return found;
  }

 private:
  static constexpr std::size_t max_operations = 64;

  const Chain chain_;
  std::uint64_t state_ = 0, announced_ = 0;
  double waited_ = 0;
  std::vector<double> quanta_;  // duration of one quantum in seconds
};

}  // namespace

namespace host {
std::unique_ptr<Work> make(const JitterSpec&, HostDevice&) { return std::make_unique<Jitter>(); }
}  // namespace host

namespace cuda {
std::unique_ptr<Work> make(const JitterSpec&, CudaDevice&) { return std::make_unique<Jitter>(); }
}  // namespace cuda

}  // namespace shakedown
