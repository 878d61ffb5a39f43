// Times candidates with events on the stream of a GPU.
#include "kernels/cuda/tuner.hpp"

#include <chrono>
#include <thread>

namespace shakedown::cuda {

namespace {

class GpuTrials final : public Trials {
 public:
  GpuTrials(const Gpu& gpu, const std::function<bool(std::size_t)>& enqueue) : gpu_(gpu), enqueue_(enqueue) {}

  bool runs(std::size_t candidate) override {
    const bool queued = enqueue_(candidate);
    gpu_.synchronize();
    gpu_.made_progress();
    return queued;
  }

  double seconds(std::size_t candidate, int repeats) override {
    check(cudaEventRecord(begin_.get(), gpu_.stream()));
    for (int i = 0; i < repeats; ++i) enqueue_(candidate);
    check(cudaEventRecord(done_.get(), gpu_.stream()));
    check(cudaEventSynchronize(done_.get()));
    gpu_.made_progress();
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_.get(), done_.get()));
    return static_cast<double>(milliseconds) * 1e-3 / repeats;
  }

  void rest(double seconds) override { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

  double now() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

 private:
  const Gpu& gpu_;
  const std::function<bool(std::size_t)>& enqueue_;
  Event begin_ = make_event(), done_ = make_event();
};

}  // namespace

std::optional<std::size_t> pick_fastest(const Gpu& gpu, std::size_t count,
                                        const std::function<bool(std::size_t)>& enqueue, const Tuning& tuning) {
  GpuTrials trials(gpu, enqueue);
  return shakedown::pick_fastest(trials, count, tuning);
}

std::vector<double> one_turn(const Gpu& gpu, std::size_t count, const std::function<bool(std::size_t)>& enqueue,
                             const std::optional<Bursts>& bursts) {
  GpuTrials trials(gpu, enqueue);
  return shakedown::one_turn(trials, count, bursts);
}

}  // namespace shakedown::cuda
