// Copy inside the GPU's own memory, through the SMs (engine sm: our kernel) or by the driver's copy (engine ce:
// cudaMemcpyAsync). Traffic is what is read plus what is written. Every word is checked.
#include <cstdint>
#include <span>
#include <stdexcept>

#include "kernels/cuda/copy.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/cuda/tuner.hpp"
#include "kernels/cuda/words.hpp"

namespace shakedown::cuda {

namespace {

constexpr double tuning_seconds = 0.2;

class MemoryCopy final : public Work {
 public:
  MemoryCopy(const HbmSpec& spec, const Gpu& gpu)
      : gpu_(gpu), engine_(spec.engine), source_(spec.bytes), target_(spec.bytes) {}

  /// Rank 0 finds the best shape of the kernel; all ranks use it, so that all GPUs do the same.
  void connect(Peers& peers) override {
    source_id_ = static_cast<std::uint64_t>(peers.rank());
    reset();
    if (engine_ != Engine::sm) return;
    std::size_t chosen = 0;
    chosen = fastest_shape();  // on every rank, for equal warmth; rank 0's choice counts
    peers.broadcast(std::as_writable_bytes(std::span(&chosen, 1)), 0);
    shape_ = copy_shapes()[chosen];
  }

  void enqueue() override {
    if (engine_ == Engine::sm) {
      copy_by_kernel(shape_);
    } else {
      check(cudaMemcpyAsync(target_.data(), source_.data(), source_.bytes(), cudaMemcpyDeviceToDevice, gpu_.stream()));
    }
  }

  void reset() override {
    fill_words(gpu_, source_, source_id_);
    poison(gpu_, target_);
    gpu_.synchronize();
  }

  Check verify() override { return check_words(gpu_, target_, source_id_); }
  Cost cost() const override { return {0, 2.0 * static_cast<double>(source_.bytes())}; }
  std::size_t bytes() const override { return 2 * source_.bytes(); }
  bool collective() const override { return false; }
  void corrupt() override { flip_one_bit(gpu_, target_); }

 private:
  void copy_by_kernel(const CopyShape& shape) const {
    copy(gpu_.stream(), source_.data(), target_.data(), source_.bytes(), shape, gpu_.multiprocessors());
  }

  std::size_t fastest_shape() const {
    const auto try_shape = [this](std::size_t i) {
      copy_by_kernel(copy_shapes()[i]);
      return true;
    };
    return pick_fastest(gpu_, copy_shapes().size(), try_shape, tuning_seconds).value_or(0);
  }

  const Gpu& gpu_;
  Engine engine_;
  Buffer source_, target_;
  std::uint64_t source_id_ = 0;
  CopyShape shape_ = copy_shapes().front();
};

}  // namespace

std::unique_ptr<Work> make_hbm(const HbmSpec& spec, const Gpu& gpu) {
  if (spec.engine == Engine::cpu)
    throw Unsupported("the cuda backend copies by engine:sm or engine:ce, not by the CPU");
  if (spec.bytes == 0) throw std::invalid_argument("a copy needs at least one byte");
  require_memory(2 * spec.bytes);
  return std::make_unique<MemoryCopy>(spec, gpu);
}

}  // namespace shakedown::cuda
