// Sum over all ranks through the peers (MPI_Allreduce), f32 and f64, on integers whose sum is exact.
#include <cstdint>
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
  explicit AllReduce(const AllReduceSpec& spec) : spec_(spec), in_(count()), out_(in_place() ? 0 : count()) {}

  void connect(Peers& peers) override {
    if (in_place() && peers.size() == 1) {
      throw Unsupported("the sum in place of one rank moves nothing and changes nothing: there is nothing to measure");
    }
    peers_ = &peers;
    addends_ = reference::addends_for(peers.size(), exact);
    addends_.sum_is_zero = in_place();
  }

  void enqueue() override { peers_->sum(std::span<const T>(in_), std::span<T>(result())); }

  void reset() override {
    for (std::size_t i = 0; i < in_.size(); ++i) in_[i] = static_cast<T>(addends_.at(i, peers_->rank()));
    if (!in_place()) out_.assign(out_.size(), std::numeric_limits<T>::quiet_NaN());
  }

  Check verify() override {
    Checker checker;
    for (std::size_t i = 0; i < result().size(); ++i) {
      checker.expect_equal(i, result()[i], static_cast<T>(addends_.sum(i)));
    }
    return checker.result();
  }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return footprint(spec_); }
  bool collective() const override { return true; }
  void corrupt() override { result()[result().size() / 2] += 1; }

 private:
  /// Integers up to here are exact.
  static constexpr auto exact = std::int64_t{1} << std::numeric_limits<T>::digits;

  bool in_place() const { return spec_.place == Place::in; }
  std::size_t count() const { return spec_.bytes / sizeof(T); }
  std::vector<T>& result() { return in_place() ? in_ : out_; }

  AllReduceSpec spec_;
  Peers* peers_ = nullptr;
  reference::Addends addends_;
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
  if (spec.launch == Launch::graph) throw Unsupported("the host backend has no graphs of operations");
  if (spec.dtype == DType::f32) return make<float>(spec);
  if (spec.dtype == DType::f64) return make<double>(spec);
  throw Unsupported("the host backend sums f32 and f64 only, not " + std::string(name(spec.dtype)));
}

}  // namespace shakedown::host
