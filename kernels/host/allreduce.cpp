// Sum over all ranks through the peers (MPI_Allreduce), f32 and f64, on integers whose sum is exact.
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/host/buffer.hpp"
#include "kernels/host/host_device.hpp"
#include "kernels/reference.hpp"

namespace shakedown::host {

namespace {

template <class T>
class AllReduce final : public Work {
 public:
  explicit AllReduce(const AllReduceSpec& spec)
      : spec_(spec),
        trail_(in_place() ? Trail::apart(spec.bytes) : Trail(spec.bytes)),
        in_(in_place() ? 0 : count()),
        outputs_(map_memory(trail_.room())) {}

  void connect(Group& group) override {
    if (in_place() && group.size() == 1) {
      throw Unsupported("the sum in place of one rank moves nothing and changes nothing: there is nothing to measure");
    }
    group_ = &group;
    addends_ = reference::addends_for(group.size(), exact);
    addends_.sum_is_zero = in_place();
  }

  void enqueue() override {
    trail_.next();
    group_->sum(in_place() ? std::span<const T>(result()) : std::span<const T>(in_), result());
  }

  /// What has been summed in place is zero and stays so: each operation of a series gets new addends.
  void stage(int repeats) override {
    if (!in_place()) return stage_trail(whole(), trail_, repeats, nan_byte);
    trail_.stage(static_cast<std::size_t>(repeats));
    const auto fresh = trail_.heads();
    write_addends({reinterpret_cast<T*>(outputs_.get() + fresh.begin), fresh.size() / sizeof(T)});
  }

  void reset() override {
    if (!in_place()) {
      write_addends(in_);
      std::memset(outputs_.get(), nan_byte, trail_.room());
    }
    trail_.restart();
    if (in_place()) stage(1);
  }

  Check verify() override {
    Checker checker;
    for (std::size_t i = 0; i < result().size(); ++i) {
      checker.expect_equal(i, result()[i], static_cast<T>(addends_.sum(i)));
    }
    auto check = checker.result();
    check_trail(whole(), trail_, check);
    return check;
  }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return footprint(spec_); }
  bool collective() const override { return true; }
  void corrupt() override { result()[result().size() / 2] += 1; }

 private:
  static constexpr int nan_byte = 0xff;  // in every byte: a NaN, which no check takes for a sum
  /// Integers up to here are exact.
  static constexpr auto exact = std::int64_t{1} << std::numeric_limits<T>::digits;

  bool in_place() const { return spec_.place == Place::in; }
  std::size_t count() const { return spec_.bytes / sizeof(T); }
  std::span<std::byte> whole() const { return {outputs_.get(), trail_.room()}; }
  /// The output of the last operation.
  std::span<T> result() const { return {reinterpret_cast<T*>(outputs_.get() + trail_.last()), count()}; }

  void write_addends(std::span<T> to) const {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<T>(addends_.at(i, group_->rank()));
  }

  AllReduceSpec spec_;
  Group* group_ = nullptr;
  reference::Addends addends_;
  Trail trail_;
  std::vector<T> in_;
  Mapping outputs_;
};

template <class T>
std::unique_ptr<Work> make_sum(const AllReduceSpec& spec) {
  if (spec.bytes == 0 || spec.bytes % sizeof(T) != 0) {
    throw std::invalid_argument("an AllReduce needs a positive whole number of elements");
  }
  return std::make_unique<AllReduce<T>>(spec);
}

}  // namespace

std::unique_ptr<Work> make(const AllReduceSpec& spec, HostDevice&) {
  if (spec.launch == Launch::graph) throw Unsupported("the host backend has no graphs of operations");
  if (spec.dtype == DType::f32) return make_sum<float>(spec);
  if (spec.dtype == DType::f64) return make_sum<double>(spec);
  throw Unsupported("the host backend sums f32 and f64 only, not " + std::string(name(spec.dtype)));
}

}  // namespace shakedown::host
