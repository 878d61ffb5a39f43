// Calls that launch a kernel or a graph of kernels. The GPU is idle when a call arrives and has almost nothing to do.
// The time is therefore that of the CPU, the driver and the path to the GPU.
#include "kernels/cuda/count.hpp"
#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/recording.hpp"
#include "kernels/ops/launch.hpp"

namespace shakedown::cuda {

namespace {

class LaunchCall final : public Work {
 public:
  LaunchCall(const LaunchSpec& spec, const Gpu& gpu) : spec_(spec), gpu_(gpu), counter_(sizeof(unsigned long long)) {
    if (spec_.op == LaunchOp::graph) graph_.record(gpu_.stream(), spec_.kernels, [this] { count(); });
    enqueue();  // the first call loads the kernel
    reset();
  }

  void enqueue() override {
    if (spec_.op == LaunchOp::graph) return graph_.replay(gpu_.stream(), spec_.kernels);
    count();
  }

  void stage(int repeats) override { announced_ += static_cast<unsigned long long>(repeats); }

  void reset() override {
    announced_ = 0;
    gpu_.fill(counter_, 0);
    gpu_.synchronize();
  }

  Check verify() override {
    Checker checker;
    const auto kernels = static_cast<unsigned long long>(spec_.kernels);
    if (announced_ > 0) checker.expect_equal(0, gpu_.read(counter()), announced_ * kernels);
    return checker.result();
  }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return counter_.bytes(); }
  bool collective() const override { return false; }
  bool on_processor() const override { return true; }

  void corrupt() override {
    const auto flipped = gpu_.read(counter()) ^ 1ULL;
    gpu_.write(counter_.data(), &flipped, sizeof flipped);
  }

 private:
  unsigned long long* counter() const { return counter_.data<unsigned long long>(); }
  void count() const { count_up(gpu_.stream(), counter()); }

  const LaunchSpec spec_;
  const Gpu& gpu_;
  const Buffer counter_;
  Recording graph_;
  unsigned long long announced_ = 0;
};

}  // namespace

std::unique_ptr<Work> make(const LaunchSpec& spec, CudaDevice& device) {
  return std::make_unique<LaunchCall>(spec, device.gpu());
}

}  // namespace shakedown::cuda
