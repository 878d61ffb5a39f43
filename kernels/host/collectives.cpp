// The collectives beside AllReduce through the peers (MPI), f32, out of place. What is only moved is position- and
// rank-dependent words; what is summed is integers whose sums are exact.
#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

#include "kernels/host/buffer.hpp"
#include "kernels/host/host_device.hpp"

namespace shakedown::host {

namespace {

constexpr std::int64_t exact_in_f32 = std::int64_t{1} << 24;

class Collective final : public Work {
 public:
  explicit Collective(const CollectiveSpec& spec)
      : spec_(spec),
        layout_(layout(spec)),
        addends_(reference::addends_for(spec.ranks, exact_in_f32)),
        in_(layout_.in / sizeof(float)),
        trail_(layout_.out),
        outputs_(map_memory(trail_.room())) {}

  void connect(Group& group) override {
    if (group.size() != spec_.ranks) throw std::logic_error("a collective was prepared for another number of ranks");
    group_ = &group;
  }

  void enqueue() override {
    const std::span<const float> in(in_);
    trail_.next();
    const auto out = last_output();
    const int rank = group_->rank();
    switch (spec_.op) {
      case CollectiveOp::all_gather: return group_->all_gather(std::as_bytes(in), std::as_writable_bytes(out));
      case CollectiveOp::reduce_scatter: return group_->reduce_scatter(in, out);
      case CollectiveOp::alltoall: return group_->all_to_all(std::as_bytes(in), std::as_writable_bytes(out));
      case CollectiveOp::broadcast:
        if (rank == collective_root) std::memcpy(out.data(), in.data(), out.size_bytes());  // MPI_Bcast has one buffer
        return group_->broadcast(std::as_writable_bytes(out), collective_root);
      case CollectiveOp::reduce: return group_->reduce(in, out, collective_root);
      case CollectiveOp::sendrecv:
        return group_->sendrecv(std::as_bytes(in), next_rank(rank, spec_.ranks), std::as_writable_bytes(out),
                                previous_rank(rank, spec_.ranks));
    }
  }

  void reset() override {
    const reference::Parts own{in_.size(), 0, static_cast<std::uint64_t>(group_->rank())};
    for (std::size_t i = 0; i < in_.size(); ++i) {
      if (sums(spec_.op)) {
        in_[i] = static_cast<float>(addends_.at(i, group_->rank()));
      } else {
        const auto word = own.at(i);
        std::memcpy(&in_[i], &word, sizeof word);
      }
    }
    trail_.restart();
    std::memset(outputs_.get(), nan_byte, trail_.room());
  }

  void stage(int repeats) override { stage_trail(whole(), trail_, repeats, nan_byte); }

  /// Every rank checks its output; in a reduce the ranks that have none check that their input is unchanged.
  Check verify() override {
    Checker checker;
    const int rank = group_->rank();
    const auto out = last_output();
    if (!sums(spec_.op)) {
      const auto want = received(spec_, rank);
      for (std::size_t i = 0; i < out.size(); ++i) checker.expect_equal(i, word(out[i]), want.at(i));
    } else if (!has_output(spec_.op, rank)) {
      for (std::size_t i = 0; i < in_.size(); ++i) {
        checker.expect_equal(i, in_[i], static_cast<float>(addends_.at(i, rank)));
      }
    } else {
      const auto first = spec_.op == CollectiveOp::reduce_scatter ? static_cast<std::size_t>(rank) * out.size() : 0;
      for (std::size_t i = 0; i < out.size(); ++i) {
        checker.expect_equal(i, out[i], static_cast<float>(addends_.sum(first + i)));
      }
    }
    auto check = checker.result();
    if (has_output(spec_.op, rank)) check_trail(whole(), trail_, check);
    return check;
  }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return footprint(spec_); }
  bool collective() const override { return true; }

  void corrupt() override {
    const auto checked = has_output(spec_.op, group_->rank()) ? last_output() : std::span<float>(in_);
    std::as_writable_bytes(checked)[checked.size() / 2 * sizeof(float)] ^= std::byte{1};
  }

 private:
  static constexpr int nan_byte = 0xff;  // in every byte: a NaN, which no check takes for a sum

  static std::uint32_t word(const float& place) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &place, sizeof bits);
    return bits;
  }

  std::span<std::byte> whole() const { return {outputs_.get(), trail_.room()}; }
  std::span<float> last_output() const {
    return {reinterpret_cast<float*>(outputs_.get() + trail_.last()), layout_.out / sizeof(float)};
  }

  CollectiveSpec spec_;
  CollectiveLayout layout_;
  reference::Addends addends_;
  Group* group_ = nullptr;
  std::vector<float> in_;
  Trail trail_;
  Mapping outputs_;
};

}  // namespace

std::unique_ptr<Work> make(const CollectiveSpec& spec, HostDevice&) {
  if (spec.dtype != DType::f32) {
    throw Unsupported("the host backend has f32 collectives only, not " + std::string(name(spec.dtype)));
  }
  return std::make_unique<Collective>(spec);
}

}  // namespace shakedown::host
