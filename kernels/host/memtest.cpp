// The memory test over a bounded part of this host's memory: writes a pattern, reads it back, and lists wrong words.
#include <cinttypes>
#include <cstdio>
#include <mutex>
#include <utility>

#include "kernels/host/buffer.hpp"
#include "kernels/host/host_device.hpp"

namespace shakedown::host {

namespace {

class MemoryTest final : public Work {
 public:
  MemoryTest(const MemoryTestSpec& spec, Team& team)
      : spec_(spec), team_(team), bytes_(*spec.bytes), memory_(map_memory(bytes_)) {}

  void enqueue() override {
    ++walks_;
    team_.each_range(bytes_ / 8, [this](std::size_t begin, std::size_t end) {
      for (auto i = begin; i < end; ++i) {
        const auto word = expected(i);
        std::memcpy(memory_.get() + 8 * i, &word, 8);
      }
    });
    check_all();
  }

  void reset() override {
    poison({memory_.get(), bytes_}, team_);
    result_ = {};
    walks_ = 0;
  }

  /// What the walks have found, and once more what stands in the memory now.
  Check verify() override {
    const Check of_walks = result_;
    check_all();
    Check check = std::exchange(result_, of_walks);
    const auto looks = (walks_ + 1) * (bytes_ / 8);
    if (check.compared == looks) return check;
    ++check.mismatched;
    check.first = std::to_string(check.compared) + " words were looked at by " + std::to_string(walks_) +
                  " walks and the last look, expected " + std::to_string(looks) + ": walks were skipped";
    return check;
  }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return bytes_; }
  bool collective() const override { return false; }
  Metrics metrics() override { return {{"capacity_gb", static_cast<double>(bytes_) / 1e9}}; }
  void corrupt() override { flip_one_bit({memory_.get(), bytes_}); }

 private:
  void check_all() {
    team_.each_range(bytes_ / 8, [this](std::size_t begin, std::size_t end) {
      std::size_t wrong = 0, first = 0;
      for (auto i = begin; i < end; ++i) {
        if (word(i) == expected(i)) continue;
        if (wrong++ == 0) first = i;
      }
      const std::lock_guard lock(mutex_);
      result_.compared += end - begin;
      if (wrong > 0 && result_.mismatched == 0) result_.first = describe(first);
      result_.mismatched += wrong;
    });
  }

  /// What the last walk wrote.
  std::uint64_t expected(std::size_t i) const {
    return reference::test_word(spec_.pattern, i) ^ reference::inversion(walks_);
  }

  std::uint64_t word(std::size_t i) const {
    std::uint64_t value = 0;
    std::memcpy(&value, memory_.get() + 8 * i, 8);
    return value;
  }

  std::string describe(std::size_t i) const {
    char line[160];
    std::snprintf(line, sizeof line, "byte 0x%zx at address %p is 0x%016" PRIx64 ", expected 0x%016" PRIx64, 8 * i,
                  static_cast<const void*>(memory_.get() + 8 * i), word(i), expected(i));
    return line;
  }

  MemoryTestSpec spec_;
  Team& team_;
  std::size_t bytes_, walks_ = 0;
  Mapping memory_;
  std::mutex mutex_;
  Check result_;
};

}  // namespace

std::unique_ptr<Work> make(const MemoryTestSpec& spec, HostDevice& device) {
  if (!spec.bytes) throw Unsupported("the host backend tests a bounded part of the memory only: give the bytes");
  if (*spec.bytes == 0 || *spec.bytes % 16 != 0) throw std::invalid_argument("memtest needs whole 16-byte vectors");
  return std::make_unique<MemoryTest>(spec, device.team());
}

}  // namespace shakedown::host
