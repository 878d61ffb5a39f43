// The memory test over a bounded part of this host's memory: writes a pattern, reads it back, and lists wrong words.
#pragma once

#include <cinttypes>
#include <cstdio>
#include <mutex>
#include <utility>

#include "kernels/host/buffer.hpp"
#include "kernels/host/host_device.hpp"
#include "kernels/ops/memory.hpp"

namespace shakedown::host {

/// Plain access to words. Tests replace it by classes that simulate memory faults.
struct Cells {
  static void write(std::uint64_t* words, std::size_t i, std::uint64_t word) { words[i] = word; }
  static std::uint64_t read(const std::uint64_t* words, std::size_t i) { return words[i]; }
};

template <class Cells>
class MemoryTest final : public Work {
 public:
  MemoryTest(const MemoryTestSpec& spec, Team& team)
      : spec_(spec), team_(team), bytes_(*spec.bytes), memory_(map_memory(bytes_)) {}

  void enqueue() override {
    ++walks_;
    inverted_ = reference::inversion(walks_);
    team_.each_range(bytes_ / 8, [this](std::size_t begin, std::size_t end) {
      for (auto i = begin; i < end; ++i) write(i);
    });
    for (const bool upwards : {true, false}) {
      if (spec_.pattern == TestPattern::moving) move(upwards);
    }
    check_all();
  }

  void reset() override {
    poison({memory_.get(), bytes_}, team_);
    result_ = {};
    walks_ = 0;
    inverted_ = reference::inversion(0);
  }

  /// Checks the results of the walks, and the current content of the memory.
  Check verify() override {
    const Check of_walks = result_;
    check_all();
    Check check = std::exchange(result_, of_walks);
    const auto looks = (walks_ * static_cast<std::size_t>(passes(spec_.pattern)) + 1) * (bytes_ / 8);
    if (check.compared == looks) return check;
    ++check.mismatched;
    check.first = std::to_string(check.compared) + " words were read by " + std::to_string(walks_) +
                  " passes and the last read, expected " + std::to_string(looks) + ": passes were skipped";
    return check;
  }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return bytes_; }
  bool collective() const override { return false; }
  Metrics metrics() override { return {{"capacity_gb", static_cast<double>(bytes_) / 1e9}}; }
  void corrupt() override { flip_one_bit({memory_.get(), bytes_}); }

 private:
  /// The result of reading one range of words.
  struct Look {
    std::size_t wrong = 0;
    std::string first;
  };

  void check_all() {
    team_.each_range(bytes_ / 8, [this](std::size_t begin, std::size_t end) {
      Look look;
      for (auto i = begin; i < end; ++i) check(i, look);
      add(look, end - begin);
    });
  }

  /// Reads each word and writes its complement, from first to last or from last to first.
  void move(bool upwards) {
    const auto complement = ~inverted_;
    team_.each_range(bytes_ / 8, [&](std::size_t begin, std::size_t end) {
      Look look;
      for (auto n = begin; n < end; ++n) {
        const auto i = upwards ? n : begin + end - 1 - n;
        check(i, look);
        Cells::write(words(), i, reference::test_word(spec_.pattern, i) ^ complement);
      }
      add(look, end - begin);
    });
    inverted_ = complement;
  }

  void check(std::size_t i, Look& look) const {
    const auto got = Cells::read(words(), i);
    if (got == expected(i)) return;
    if (look.wrong++ == 0) look.first = describe(i, got);
  }

  void add(const Look& look, std::size_t count) {
    const std::lock_guard lock(mutex_);
    result_.compared += count;
    if (result_.mismatched == 0) result_.first = look.first;
    result_.mismatched += look.wrong;
  }

  void write(std::size_t i) const { Cells::write(words(), i, expected(i)); }
  std::uint64_t* words() const { return reinterpret_cast<std::uint64_t*>(memory_.get()); }

  /// Returns the word that was written last.
  std::uint64_t expected(std::size_t i) const { return reference::test_word(spec_.pattern, i) ^ inverted_; }

  std::string describe(std::size_t i, std::uint64_t got) const {
    char line[160];
    std::snprintf(line, sizeof line, "byte 0x%zx at address %p is 0x%016" PRIx64 ", expected 0x%016" PRIx64, 8 * i,
                  static_cast<const void*>(memory_.get() + 8 * i), got, expected(i));
    return line;
  }

  MemoryTestSpec spec_;
  Team& team_;
  std::size_t bytes_, walks_ = 0;
  std::uint64_t inverted_ = 0;
  Mapping memory_;
  std::mutex mutex_;
  Check result_;
};

}  // namespace shakedown::host
