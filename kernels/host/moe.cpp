// The exchange of tokens with experts, pair by pair through the group: the reference for other backends.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "kernels/host/buffer.hpp"
#include "kernels/host/host_device.hpp"
#include "kernels/ops/moe.hpp"
#include "kernels/trail.hpp"

namespace shakedown::host {

namespace {

/// Memory, order of the ranks and outputs that both operations have in common.
class Moe : public Work {
 public:
  Moe(const MoeSpec& spec, std::size_t in_tokens, std::size_t out_tokens)
      : spec_(spec),
        routing_(spec),
        ranks_(static_cast<std::size_t>(spec.ranks)),
        bytes_(token_bytes(spec)),
        trail_(out_tokens * bytes_),
        in_(map_memory(in_tokens * bytes_)),
        outputs_(map_memory(trail_.room())),
        packed_(map_memory(spec.tokens * bytes_)) {}

  void connect(Group& group) override {
    if (group.size() != spec_.ranks) throw std::logic_error("an exchange was prepared for another number of ranks");
    group_ = &group;
    me_ = static_cast<std::size_t>(group.rank());
    compare_routing(group, routing_);
  }

  void enqueue() override {
    trail_.next();
    begin();
    for (std::size_t k = 0; k < ranks_; ++k) exchange((me_ + k) % ranks_, (me_ + ranks_ - k) % ranks_);
    finish();
  }

  void stage(int repeats) override { stage_trail(whole(), trail_, repeats, poison_byte); }
  void reset() override {
    fill();
    std::memset(outputs_.get(), poison_byte, trail_.room());
    trail_.restart();
  }
  Check verify() override {
    Checker checker;
    compare(checker);
    auto check = checker.result();
    check_trail(whole(), trail_, check);
    return check;
  }
  std::optional<std::uint64_t> digest() const override { return digest_of(last(0, output_tokens())); }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return footprint(spec_); }
  bool collective() const override { return true; }
  void corrupt() override { flip_one_bit(last(0, output_tokens())); }

 protected:
  virtual void begin() {}
  virtual void exchange(std::size_t to, std::size_t from) = 0;
  virtual void finish() {}
  virtual void fill() = 0;
  virtual void compare(Checker&) = 0;
  virtual std::size_t output_tokens() const = 0;

  /// Sends and receives. In the first round a rank keeps its own tokens.
  void pass(std::span<const std::byte> out, std::size_t to, std::span<std::byte> in, std::size_t from) {
    if (to == me_) {
      std::memcpy(in.data(), out.data(), in.size());
    } else {
      group_->sendrecv(out, static_cast<int>(to), in, static_cast<int>(from));
    }
  }
  std::span<std::byte> input(std::size_t first, std::size_t tokens) const {
    return {in_.get() + first * bytes_, tokens * bytes_};
  }
  std::span<std::byte> packed(std::size_t tokens) const { return {packed_.get(), tokens * bytes_}; }
  std::span<std::byte> last(std::size_t first, std::size_t tokens) const {
    return {outputs_.get() + trail_.last() + first * bytes_, tokens * bytes_};
  }
  std::span<std::byte> whole() const { return {outputs_.get(), trail_.room()}; }
  MoeNumbers numbers() const { return {spec_.tokens, spec_.hidden}; }

  MoeSpec spec_;
  MoeRouting routing_;
  std::size_t ranks_, bytes_, me_ = 0;
  Group* group_ = nullptr;
  Trail trail_;
  Mapping in_, outputs_, packed_;
};

class Dispatch final : public Moe {
 public:
  explicit Dispatch(const MoeSpec& spec) : Moe(spec, spec.tokens, MoeRouting(spec).most_received()) {}

 private:
  static constexpr std::size_t word = sizeof(std::uint32_t);

  void exchange(std::size_t to, std::size_t from) override {
    const auto& sent = routing_.tokens(me_, to);
    const auto out = packed(sent.size());
    for (std::size_t i = 0; i < sent.size(); ++i) std::memcpy(&out[i * bytes_], input(sent[i], 1).data(), bytes_);
    pass(out, to, last(routing_.place(from, me_), routing_.tokens(from, me_).size()), from);
  }

  void fill() override {
    const reference::Parts own{spec_.tokens * bytes_ / word, 0, me_};
    for (std::size_t i = 0; i < own.part; ++i) {
      const auto value = own.at(i);
      std::memcpy(in_.get() + i * word, &value, word);
    }
  }

  void compare(Checker& checker) override {
    const auto words = bytes_ / word;
    for (std::size_t from = 0; from < ranks_; ++from) {
      const reference::Parts sent{spec_.tokens * words, 0, from};
      const auto& tokens = routing_.tokens(from, me_);
      for (std::size_t i = 0; i < tokens.size() * words; ++i) {
        const auto place = routing_.place(from, me_) * words + i;
        std::uint32_t value = 0;
        std::memcpy(&value, last(0, output_tokens()).data() + place * word, word);
        checker.expect_equal(place, value, sent.at(tokens[i / words] * words + i % words));
      }
    }
  }

  std::size_t output_tokens() const override { return routing_.received(me_); }
};

class Combine final : public Moe {
 public:
  explicit Combine(const MoeSpec& spec)
      : Moe(spec, MoeRouting(spec).most_received(), spec.tokens), sums_(spec.tokens * spec.hidden) {}

 private:
  using Bits = std::uint16_t;  // of a bf16 number

  void begin() override { std::fill(sums_.begin(), sums_.end(), 0.0F); }

  void exchange(std::size_t to, std::size_t from) override {
    const auto& tokens = routing_.tokens(me_, from);
    const auto in = packed(tokens.size());
    pass(input(routing_.place(to, me_), routing_.tokens(to, me_).size()), to, in, from);
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      const auto weight = static_cast<float>(numbers().weight(me_, from, tokens[t]));
      for (std::size_t i = 0; i < spec_.hidden; ++i) {
        Bits bits = 0;
        std::memcpy(&bits, &in[t * bytes_ + i * sizeof bits], sizeof bits);
        sums_[tokens[t] * spec_.hidden + i] += weight * std::bit_cast<float>(std::uint32_t{bits} << 16);
      }
    }
  }

  void finish() override {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      const auto bits = static_cast<Bits>(std::bit_cast<std::uint32_t>(sums_[i]) >> 16);
      std::memcpy(last(0, spec_.tokens).data() + i * sizeof bits, &bits, sizeof bits);
    }
  }

  void fill() override {
    for (std::size_t of = 0; of < ranks_; ++of) {
      const auto& tokens = routing_.tokens(of, me_);
      for (std::size_t i = 0; i < tokens.size() * spec_.hidden; ++i) {
        const auto bits = MoeNumbers::bits(numbers().output(of, me_, tokens[i / spec_.hidden], i % spec_.hidden));
        std::memcpy(input(routing_.place(of, me_), tokens.size()).data() + i * sizeof bits, &bits, sizeof bits);
      }
    }
  }

  void compare(Checker& checker) override {
    std::vector<unsigned> sums(sums_.size());
    for (std::size_t at = 0; at < ranks_; ++at) {
      for (const auto token : routing_.tokens(me_, at)) {
        for (std::size_t i = 0; i < spec_.hidden; ++i) {
          sums[token * spec_.hidden + i] += numbers().weight(me_, at, token) * numbers().output(me_, at, token, i);
        }
      }
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      Bits bits = 0;
      std::memcpy(&bits, last(0, spec_.tokens).data() + i * sizeof bits, sizeof bits);
      checker.expect_equal(i, bits, MoeNumbers::bits(sums[i]));
    }
  }

  std::size_t output_tokens() const override { return spec_.tokens; }

  std::vector<float> sums_;
};

}  // namespace

std::unique_ptr<Work> make(const MoeSpec& spec, HostDevice&) {
  if (spec.op == MoeOp::dispatch) return std::make_unique<Dispatch>(spec);
  return std::make_unique<Combine>(spec);
}

}  // namespace shakedown::host
