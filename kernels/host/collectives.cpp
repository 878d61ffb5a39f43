// The collectives beside AllReduce through the peers (MPI), f32, out of place. What is only moved is position- and
// rank-dependent words; what is summed is integers whose sums are exact.
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

#include "kernels/collectives.hpp"
#include "kernels/host/checker.hpp"
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
        out_(layout_.out / sizeof(float)) {}

  void connect(Peers& peers) override {
    if (peers.size() != spec_.ranks) throw std::logic_error("a collective was prepared for another number of ranks");
    peers_ = &peers;
  }

  void enqueue() override {
    const std::span<const float> in(in_);
    const std::span<float> out(out_);
    const int rank = peers_->rank();
    switch (spec_.op) {
      case CollectiveOp::all_gather: return peers_->all_gather(std::as_bytes(in), std::as_writable_bytes(out));
      case CollectiveOp::reduce_scatter: return peers_->reduce_scatter(in, out);
      case CollectiveOp::alltoall: return peers_->all_to_all(std::as_bytes(in), std::as_writable_bytes(out));
      case CollectiveOp::broadcast:
        if (rank == collective_root) std::memcpy(out.data(), in.data(), out.size_bytes());  // MPI_Bcast has one buffer
        return peers_->broadcast(std::as_writable_bytes(out), collective_root);
      case CollectiveOp::reduce: return peers_->reduce(in, out, collective_root);
      case CollectiveOp::sendrecv:
        return peers_->sendrecv(std::as_bytes(in), next_rank(rank, spec_.ranks), std::as_writable_bytes(out),
                                previous_rank(rank, spec_.ranks));
    }
  }

  void reset() override {
    const reference::Parts own{in_.size(), 0, static_cast<std::uint64_t>(peers_->rank())};
    for (std::size_t i = 0; i < in_.size(); ++i) {
      if (sums(spec_.op)) {
        in_[i] = static_cast<float>(addends_.at(i, peers_->rank()));
      } else {
        const auto word = own.at(i);
        std::memcpy(&in_[i], &word, sizeof word);
      }
    }
    out_.assign(out_.size(), std::numeric_limits<float>::quiet_NaN());
  }

  /// Every rank checks its output; in a reduce the ranks that have none check that their input is unchanged.
  Check verify() override {
    Checker checker;
    const int rank = peers_->rank();
    if (!sums(spec_.op)) {
      const auto want = received(spec_, rank);
      for (std::size_t i = 0; i < out_.size(); ++i) checker.expect_equal(i, word(i), want.at(i));
    } else if (!has_output(spec_.op, rank)) {
      for (std::size_t i = 0; i < in_.size(); ++i) {
        checker.expect_equal(i, in_[i], static_cast<float>(addends_.at(i, rank)));
      }
    } else {
      const auto first = spec_.op == CollectiveOp::reduce_scatter ? static_cast<std::size_t>(rank) * out_.size() : 0;
      for (std::size_t i = 0; i < out_.size(); ++i) {
        checker.expect_equal(i, out_[i], static_cast<float>(addends_.sum(first + i)));
      }
    }
    return checker.result();
  }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return footprint(spec_); }
  bool collective() const override { return true; }

  void corrupt() override {
    auto& checked = has_output(spec_.op, peers_->rank()) ? out_ : in_;
    std::as_writable_bytes(std::span(checked))[checked.size() / 2 * sizeof(float)] ^= std::byte{1};
  }

 private:
  std::uint32_t word(std::size_t i) const {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &out_[i], sizeof bits);
    return bits;
  }

  CollectiveSpec spec_;
  CollectiveLayout layout_;
  reference::Addends addends_;
  Peers* peers_ = nullptr;
  std::vector<float> in_, out_;
};

}  // namespace

std::unique_ptr<Work> make_collective(const CollectiveSpec& spec) {
  if (spec.dtype != DType::f32) {
    throw Unsupported("the host backend has f32 collectives only, not " + std::string(name(spec.dtype)));
  }
  return std::make_unique<Collective>(spec);
}

}  // namespace shakedown::host
