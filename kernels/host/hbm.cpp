// Streams over the memory of this host with all cores of the rank. For sizes far beyond the cache, memcpy of the C
// library uses non-temporal stores; the traffic of a copy is then the bytes read plus the bytes written. The other
// operations are plain loops, in which a CPU reads cache lines before it writes them. Such reads are not counted, as in
// BabelStream.
#include <array>
#include <atomic>
#include <bit>
#include <vector>

#include "kernels/host/buffer.hpp"
#include "kernels/host/host_device.hpp"
#include "kernels/ops/memory.hpp"
#include "kernels/trail.hpp"

namespace shakedown::host {

namespace {

class MemoryStream final : public Work {
 public:
  MemoryStream(const HbmSpec& spec, Team& team)
      : team_(team),
        spec_(spec),
        trail_(reads() ? sizeof(std::uint64_t) : spec.bytes),
        sums_(reads() ? trail_.room() / sizeof(std::uint64_t) : 0) {
    for (std::size_t i = 0; i < inputs(); ++i) arrays_[i] = map_memory(spec.bytes);
    if (!reads()) arrays_[inputs()] = map_memory(trail_.room());
    for (std::size_t input = 0; input < inputs(); ++input) fill(input);
  }

  void enqueue() override {
    trail_.next();
    switch (spec_.op) {
      case HbmOp::copy: return team_.copy(array(0), output());
      case HbmOp::read: return add_up();
      case HbmOp::write: return each_word([](std::size_t i) { return reference::written_word(i, source_id); });
      case HbmOp::scale: return each_word([this](std::size_t i) { return bits(factor * number(0, i)); });
      case HbmOp::add: return each_word([this](std::size_t i) { return bits(number(0, i) + number(1, i)); });
      case HbmOp::triad: return each_word([this](std::size_t i) { return bits(number(0, i) + factor * number(1, i)); });
    }
  }

  void reset() override {
    trail_.restart();
    poison(outputs(), team_);
  }

  void stage(int repeats) override { stage_trail(outputs(), trail_, repeats, poison_byte); }

  Check verify() override {
    auto check = check_last();
    check_trail(outputs(), trail_, check);
    return check;
  }

  Check check_last() const {
    if (spec_.op == HbmOp::copy) return check_words(output(), source_id);
    Checker checker;
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < words(); ++i) {
      const auto want = expected(i);
      sum += want;
      checker.expect_equal(i, word(reads() ? array(0) : output(), i), want);
    }
    if (reads()) checker.expect_equal(words(), sums_[trail_.last() / sizeof sum], sum);
    return checker.result();
  }

  std::optional<std::uint64_t> digest() const override {
    return trail_.bytes() > max_digested_bytes ? std::nullopt : std::optional(digest_of(output()));
  }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return footprint(spec_); }
  bool collective() const override { return false; }
  void corrupt() override { flip_one_bit(output()); }

 private:
  static constexpr std::uint64_t source_id = 0;
  static constexpr double factor = reference::stream_factor;

  static std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }

  bool reads() const { return spec_.op == HbmOp::read; }
  std::size_t words() const { return spec_.bytes / 8; }
  std::size_t inputs() const {
    if (spec_.op == HbmOp::write) return 0;
    return spec_.op == HbmOp::add || spec_.op == HbmOp::triad ? 2 : 1;
  }
  std::span<std::byte> array(std::size_t i) const { return {arrays_[i].get(), spec_.bytes}; }
  /// Returns the outputs of all operations in a row; for reads, their sums.
  std::span<std::byte> outputs() {
    if (reads()) return std::as_writable_bytes(std::span(sums_));
    return {arrays_[inputs()].get(), trail_.room()};
  }
  /// Returns the output of the last operation.
  std::span<std::byte> output() { return outputs().subspan(trail_.last(), trail_.bytes()); }
  std::span<const std::byte> output() const {
    if (reads()) return std::as_bytes(std::span(sums_)).subspan(trail_.last(), trail_.bytes());
    return {arrays_[inputs()].get() + trail_.last(), trail_.bytes()};
  }

  static std::uint64_t word(std::span<const std::byte> buffer, std::size_t i) {
    std::uint64_t value = 0;
    std::memcpy(&value, buffer.data() + 8 * i, 8);
    return value;
  }
  double number(std::size_t input, std::size_t i) const { return std::bit_cast<double>(word(array(input), i)); }

  void fill(std::size_t input) {
    if (spec_.op == HbmOp::copy || spec_.op == HbmOp::read) return fill_words(array(input), source_id, team_);
    write_words(array(input), [input](std::size_t i) { return bits(reference::stream_number(i, input)); });
  }

  template <class WordAt>
  void each_word(const WordAt& word_at) {
    write_words(output(), word_at);
  }

  template <class WordAt>
  void write_words(std::span<std::byte> to, const WordAt& word_at) {
    team_.each_range(words(), [&](std::size_t begin, std::size_t end) {
      for (auto i = begin; i < end; ++i) {
        const std::uint64_t value = word_at(i);
        std::memcpy(to.data() + 8 * i, &value, 8);
      }
    });
  }

  /// Adds all words modulo 2^64; the order does not matter.
  void add_up() {
    std::atomic<std::uint64_t> sum = 0;
    team_.each_range(words(), [this, &sum](std::size_t begin, std::size_t end) {
      std::uint64_t mine = 0;
      for (auto i = begin; i < end; ++i) mine += word(array(0), i);
      sum += mine;
    });
    sums_[trail_.last() / sizeof(std::uint64_t)] = sum;
  }

  std::uint64_t expected(std::size_t i) const {
    const auto a = reference::stream_number(i, 0), b = reference::stream_number(i, 1);
    switch (spec_.op) {
      case HbmOp::write: return reference::written_word(i, source_id);
      case HbmOp::scale: return bits(factor * a);
      case HbmOp::add: return bits(a + b);
      case HbmOp::triad: return bits(a + factor * b);
      case HbmOp::copy:
      case HbmOp::read: break;
    }
    return reference::copy_word(i, source_id);
  }

  Team& team_;
  HbmSpec spec_;
  Trail trail_;
  std::array<Mapping, 3> arrays_;
  std::vector<std::uint64_t> sums_;
};

}  // namespace

std::unique_ptr<Work> make(const HbmSpec& spec, HostDevice& device) {
  if (spec.engine != Engine::cpu) throw Unsupported("the host backend has no GPU engine: engine:cpu only");
  if (spec.bytes == 0 || spec.bytes % 8 != 0) throw std::invalid_argument("hbm needs a positive multiple of 8 bytes");
  return std::make_unique<MemoryStream>(spec, device.team());
}

}  // namespace shakedown::host
