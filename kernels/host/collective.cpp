// Collectives between the ranks through MPI, f32; AllReduce also in f64, in place and over TCP only. Data that is only
// moved consists of words that depend on position and rank. Data that is summed consists of integers whose sums are
// exact.
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/host/buffer.hpp"
#include "kernels/host/host_device.hpp"
#include "kernels/host/tcp_ring.hpp"
#include "kernels/ops/collective.hpp"

namespace shakedown::host {

namespace {

template <class T>
class Collective final : public Work {
 public:
  explicit Collective(const CollectiveSpec& spec)
      : spec_(spec),
        layout_(layout(spec)),
        addends_(reference::addends_for(spec.ranks, max_exact_integer)),
        trail_(in_place() ? Trail::apart(spec.bytes) : Trail(layout_.out)),
        in_(in_place() ? 0 : layout_.in / sizeof(T)),
        outputs_(map_memory(trail_.room())) {
    addends_.sum_is_zero = in_place();
  }

  void connect(Group& group) override {
    group_ = &group_of(spec_, group);
    if (in_place() && group_->size() == 1) {
      throw Unsupported("an in-place AllReduce on one rank is a no-op: there is nothing to measure");
    }
    if (spec_.via == Via::net) ring_.emplace(*group_);
  }

  void enqueue() override {
    trail_.next();
    const auto out = last_output();
    const auto in = in_place() ? std::span<const T>(out) : std::span<const T>(in_);
    const int rank = group_->rank();
    const int next = next_rank(rank, spec_.ranks), previous = previous_rank(rank, spec_.ranks);
    switch (spec_.op) {
      case CollectiveOp::all_reduce: return ring_ ? ring_->sum(in, out) : group_->sum(in, out);
      case CollectiveOp::all_gather: return group_->all_gather(std::as_bytes(in), std::as_writable_bytes(out));
      case CollectiveOp::reduce_scatter:
        if constexpr (std::is_same_v<T, float>) return group_->reduce_scatter(in, out);
        break;
      case CollectiveOp::alltoall: return group_->all_to_all(std::as_bytes(in), std::as_writable_bytes(out));
      case CollectiveOp::broadcast:
        // MPI_Bcast has only one buffer.
        if (rank == collective_root) std::memcpy(out.data(), in.data(), out.size_bytes());
        return group_->broadcast(std::as_writable_bytes(out), collective_root);
      case CollectiveOp::reduce:
        if constexpr (std::is_same_v<T, float>) return group_->reduce(in, out, collective_root);
        break;
      case CollectiveOp::sendrecv:
        return group_->sendrecv(std::as_bytes(in), !spec_.sender || *spec_.sender == rank ? next : Group::nobody,
                                std::as_writable_bytes(out), has_output(spec_, rank) ? previous : Group::nobody);
    }
    throw std::logic_error("the collective does not support this type");
  }

  /// An in-place sum is zero after one operation and stays zero, so each operation of a series gets new addends.
  void stage(int repeats) override {
    if (!in_place()) return stage_trail(whole(), trail_, repeats, nan_byte);
    trail_.stage(static_cast<std::size_t>(repeats));
    const auto fresh = trail_.heads();
    write_addends({reinterpret_cast<T*>(outputs_.get() + fresh.begin), fresh.size() / sizeof(T)});
  }

  void reset() override {
    if (sums(spec_.op)) {
      write_addends(in_);
    } else {
      const auto own = sent(spec_, group_->rank());
      for (std::size_t i = 0; i < in_.size(); ++i) {
        const auto word = own.at(i);
        std::memcpy(&in_[i], &word, sizeof word);
      }
    }
    if (!in_place()) std::memset(outputs_.get(), nan_byte, trail_.room());
    trail_.restart();
    if (in_place()) stage(1);
  }

  /// Checks the output on every rank. Ranks without an output check that their input is unchanged.
  Check verify() override {
    Checker checker;
    const int rank = group_->rank();
    const bool receives = has_output(spec_, rank);
    const auto out = receives ? last_output() : std::span<T>(in_);
    if (!sums(spec_.op)) {
      const auto want = receives ? received(spec_, rank) : sent(spec_, rank);
      for (std::size_t i = 0; i < out.size(); ++i) checker.expect_equal(i, word(out[i]), want.at(i));
    } else if (!receives) {
      for (std::size_t i = 0; i < in_.size(); ++i) {
        checker.expect_equal(i, in_[i], static_cast<T>(addends_.at(i, rank)));
      }
    } else {
      const auto first = spec_.op == CollectiveOp::reduce_scatter ? static_cast<std::size_t>(rank) * out.size() : 0;
      for (std::size_t i = 0; i < out.size(); ++i) {
        checker.expect_equal(i, out[i], static_cast<T>(addends_.sum(first + i)));
      }
    }
    auto check = checker.result();
    if (receives) check_trail(whole(), trail_, check);
    return check;
  }

  /// Sums of exact integers have the same bits in any order of additions.
  std::optional<std::uint64_t> digest() const override {
    if (!has_output(spec_, group_->rank()) || trail_.bytes() > max_digested_bytes) return std::nullopt;
    return digest_of(std::as_bytes(last_output()));
  }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return footprint(spec_); }
  bool collective() const override { return true; }
  bool on_host() const override { return spec_.scope == Scope::node; }
  std::string chosen() const override { return ring_ ? "TCP/" + ring_->interface() : ""; }

  void corrupt() override {
    const auto checked = has_output(spec_, group_->rank()) ? last_output() : std::span<T>(in_);
    if (!sums(spec_.op)) return flip_one_bit(std::as_writable_bytes(checked));
    checked[checked.size() / 2] += 1;
  }

 private:
  static constexpr int nan_byte = 0xff;  // the value of every byte, a NaN, which no check accepts as a sum
  /// Integers up to this value are exact.
  static constexpr auto max_exact_integer = std::int64_t{1} << std::numeric_limits<T>::digits;

  static std::uint32_t word(const T& place) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &place, sizeof bits);
    return bits;
  }

  void write_addends(std::span<T> to) const {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<T>(addends_.at(i, group_->rank()));
  }

  bool in_place() const { return spec_.place == Place::in; }
  std::span<std::byte> whole() const { return {outputs_.get(), trail_.room()}; }
  std::span<T> last_output() const {
    return {reinterpret_cast<T*>(outputs_.get() + trail_.last()), layout_.out / sizeof(T)};
  }

  CollectiveSpec spec_;
  CollectiveLayout layout_;
  reference::Addends addends_;
  Group* group_ = nullptr;
  std::optional<TcpRing> ring_;  // only for an AllReduce over the network
  Trail trail_;
  std::vector<T> in_;
  Mapping outputs_;
};

}  // namespace

std::unique_ptr<Work> make(const CollectiveSpec& spec, HostDevice&) {
  if (spec.launch == Launch::graph) throw Unsupported("the host backend has no graphs of operations");
  if (spec.memory == Memory::symmetric) throw Unsupported("the host backend has no symmetric memory");
  if (spec.dtype == DType::f32) return std::make_unique<Collective<float>>(spec);
  if (spec.op == CollectiveOp::all_reduce && spec.dtype == DType::f64) {
    return std::make_unique<Collective<double>>(spec);
  }
  const auto* const what = spec.op == CollectiveOp::all_reduce ? "sums f32 and f64" : "has f32 collectives";
  throw Unsupported("the host backend " + std::string(what) + " only, not " + std::string(name(spec.dtype)));
}

}  // namespace shakedown::host
