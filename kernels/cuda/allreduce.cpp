// Sum over all ranks through NCCL, f32, out of place, on integers whose sum is exact: every element is checked without
// a tolerance. The size is that of one rank's input, as in nccl-tests.
#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "kernels/cuda/communicator.hpp"
#include "kernels/cuda/data.hpp"
#include "kernels/cuda/gpu.hpp"
#include "kernels/cuda/operations.hpp"

namespace shakedown::cuda {

namespace {

/// Every byte of a poisoned output: a NaN, which no check takes for a sum.
constexpr int nan_byte = 0xff;

class AllReduce final : public Work {
 public:
  AllReduce(const AllReduceSpec& spec, const Gpu& gpu, Communicator& communicator)
      : gpu_(gpu), communicator_(communicator), in_(spec.bytes), out_(spec.bytes) {}

  void connect(Peers& world) override {
    communicator_.connect(world);
    rank_ = world.rank();
    ranks_ = world.size();
    reset();
    warm_up();
  }

  void enqueue() override {
    check(ncclAllReduce(in_.data(), out_.data(), count(), ncclFloat32, ncclSum, communicator_.get(), gpu_.stream()));
  }

  void reset() override {
    write_addends(gpu_.stream(), in_.data<float>(), count(), rank_);
    gpu_.fill(out_, nan_byte);
    gpu_.synchronize();
  }

  Check verify() override {
    count_wrong_sums(gpu_.stream(), out_.data<const float>(), count(), ranks_, gpu_.start_tally());
    const auto tally = gpu_.finish_tally();
    Check check{tally.compared, tally.mismatched, ""};
    if (check.mismatched > 0) {
      char text[96];
      std::snprintf(text, sizeof text, "element %llu is %g, expected %lld", tally.first,
                    static_cast<double>(gpu_.read(out_.data<const float>() + tally.first)),
                    static_cast<long long>(reference::addend_sum(tally.first, ranks_)));
      check.first = text;
    }
    return check;
  }

  Cost cost() const override { return {0, static_cast<double>(in_.bytes())}; }
  std::size_t bytes() const override { return in_.bytes() + out_.bytes(); }
  bool collective() const override { return true; }

  void corrupt() override {
    auto* const place = out_.data<float>() + count() / 2;
    const float wrong = gpu_.read(place) + 1;
    gpu_.write(place, &wrong, sizeof wrong);
  }

 private:
  std::size_t count() const { return in_.bytes() / sizeof(float); }

  /// NCCL connects its peers at the first call of each algorithm, and the size decides the algorithm.
  void warm_up() {
    const int calls = in_.bytes() > (std::size_t{64} << 20) ? 2 : 5;
    for (int i = 0; i < calls; ++i) enqueue();
    const auto done = make_event();
    check(cudaEventRecord(done.get(), gpu_.stream()));
    communicator_.wait(done.get());
  }

  const Gpu& gpu_;
  Communicator& communicator_;
  Buffer in_, out_;
  int rank_ = 0, ranks_ = 1;
};

}  // namespace

std::unique_ptr<Work> make_allreduce(const AllReduceSpec& spec, const Gpu& gpu, Communicator& communicator) {
  if (spec.dtype != DType::f32) {
    throw Unsupported("the cuda backend sums f32 only, not " + std::string(name(spec.dtype)));
  }
  if (spec.bytes == 0 || spec.bytes % sizeof(float) != 0) {
    throw std::invalid_argument("an AllReduce needs a positive whole number of elements");
  }
  require_memory(2 * spec.bytes);
  return std::make_unique<AllReduce>(spec, gpu, communicator);
}

}  // namespace shakedown::cuda
