// Sum over all ranks through the peers (MPI_Allreduce), out of place, f32 and f64, on integers whose sum is exact.
#include <limits>
#include <vector>

#include "kernels/host/checker.hpp"
#include "kernels/host/host_device.hpp"
#include "kernels/reference.hpp"

namespace shakedown::host {

namespace {

template <class T>
class AllReduce final : public Work {
 public:
  explicit AllReduce(const AllReduceSpec& spec)
      : spec_(spec), in_(spec.bytes / sizeof(T)), out_(spec.bytes / sizeof(T)) {}

  void connect(Peers& peers) override {
    peers_ = &peers;
    for (std::size_t i = 0; i < in_.size(); ++i) in_[i] = static_cast<T>(reference::addend(i, peers.rank()));
  }
  void enqueue() override { peers_->sum(std::span<const T>(in_), std::span<T>(out_)); }
  void reset() override { out_.assign(out_.size(), std::numeric_limits<T>::quiet_NaN()); }

  Check verify() override {
    Checker checker;
    for (std::size_t i = 0; i < out_.size(); ++i) {
      checker.expect_equal(i, out_[i], static_cast<T>(reference::addend_sum(i, peers_->size())));
    }
    return checker.result();
  }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return footprint(spec_); }
  bool collective() const override { return true; }
  void corrupt() override { out_[out_.size() / 2] += 1; }

 private:
  AllReduceSpec spec_;
  Peers* peers_ = nullptr;
  std::vector<T> in_, out_;
};

template <class T>
std::unique_ptr<Work> make(const AllReduceSpec& spec) {
  if (spec.bytes == 0 || spec.bytes % sizeof(T) != 0) {
    throw std::invalid_argument("an AllReduce needs a positive whole number of elements");
  }
  return std::make_unique<AllReduce<T>>(spec);
}

}  // namespace

std::unique_ptr<Work> make_allreduce(const AllReduceSpec& spec) {
  if (spec.dtype == DType::f32) return make<float>(spec);
  if (spec.dtype == DType::f64) return make<double>(spec);
  throw Unsupported("the host backend sums f32 and f64 only, not " + std::string(name(spec.dtype)));
}

}  // namespace shakedown::host
