// Unequal parts between the ranks, pair by pair through the group.
#include <cstring>
#include <span>
#include <stdexcept>

#include "kernels/host/buffer.hpp"
#include "kernels/host/host_device.hpp"
#include "kernels/ops/exchange.hpp"
#include "kernels/trail.hpp"

namespace shakedown::host {

namespace {

class Exchange final : public Work {
 public:
  explicit Exchange(const ExchangeSpec& spec)
      : spec_(spec),
        parts_(spec),
        trail_(parts_.largest_received()),
        in_(map_memory(spec.bytes)),
        outputs_(map_memory(trail_.room())) {}

  void connect(Group& group) override {
    if (group.size() != spec_.ranks) throw std::logic_error("an exchange was prepared for another number of ranks");
    group_ = &group;
    me_ = static_cast<std::size_t>(group.rank());
  }

  /// In round k, each rank sends to the rank k places after it, and receives from the rank k places before it.
  void enqueue() override {
    trail_.next();
    const auto ranks = static_cast<std::size_t>(spec_.ranks);
    std::memcpy(output(me_).data(), input(me_).data(), input(me_).size());
    for (std::size_t k = 1; k < ranks; ++k) {
      const std::size_t to = (me_ + k) % ranks, from = (me_ + ranks - k) % ranks;
      group_->sendrecv(input(to), static_cast<int>(to), output(from), static_cast<int>(from));
    }
  }

  void stage(int repeats) override { stage_trail(whole(), trail_, repeats, poison); }

  void reset() override {
    const reference::Parts own{spec_.bytes / word, 0, me_};
    for (std::size_t i = 0; i < spec_.bytes / word; ++i) {
      const auto value = own.at(i);
      std::memcpy(in_.get() + i * word, &value, word);
    }
    std::memset(outputs_.get(), poison, trail_.room());
    trail_.restart();
  }

  Check verify() override {
    Checker checker;
    for (std::size_t from = 0; from < static_cast<std::size_t>(spec_.ranks); ++from) {
      const auto want = words_between(parts_, from, me_);
      const auto got = output(from);
      for (std::size_t i = 0; i < got.size() / word; ++i) {
        std::uint32_t value = 0;
        std::memcpy(&value, got.data() + i * word, word);
        checker.expect_equal(parts_.received_at(from, me_) / word + i, value, want.at(i));
      }
    }
    auto check = checker.result();
    check_trail(whole(), trail_, check);
    return check;
  }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return footprint(spec_); }
  bool collective() const override { return true; }
  void corrupt() override { flip_one_bit(output(me_)); }

 private:
  static constexpr std::size_t word = sizeof(std::uint32_t);
  static constexpr int poison = 0xff;

  std::span<std::byte> whole() const { return {outputs_.get(), trail_.room()}; }
  std::span<const std::byte> input(std::size_t to) const {
    return {in_.get() + parts_.sent_at(me_, to), parts_.of(me_, to)};
  }
  std::span<std::byte> output(std::size_t from) const {
    return {outputs_.get() + trail_.last() + parts_.received_at(from, me_), parts_.of(from, me_)};
  }

  ExchangeSpec spec_;
  ExchangeParts parts_;
  Group* group_ = nullptr;
  std::size_t me_ = 0;
  Trail trail_;
  Mapping in_, outputs_;
};

}  // namespace

std::unique_ptr<Work> make(const ExchangeSpec& spec, HostDevice&) { return std::make_unique<Exchange>(spec); }

}  // namespace shakedown::host
