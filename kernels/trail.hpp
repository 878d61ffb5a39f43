// Places consecutive outputs so that each operation leaves data that no other operation could have written. A check
// after a series then covers all timed operations instead of only the last operation.
//
// Each output begins one step after the previous output and overwrites the rest of it. The first step of each output,
// its head, remains. All operations have the same input, so all heads must equal the head of the last output, which is
// checked completely. If an operation was skipped, its place holds the previous operation's data, shifted by a step, or
// poison. The timed code does no extra work: only addresses differ.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>

#include "kernels/check.hpp"

namespace shakedown {

class Trail {
 public:
  /// A part of a buffer, in bytes from its beginning.
  struct Range {
    std::size_t begin, end;
    std::size_t size() const { return end - begin; }
  };

  /// Number of places, and the largest number of operations that the timing loop queues in a row. More operations than
  /// places would overwrite each other's heads.
  static constexpr std::size_t max_places = 4096, max_operations = max_places - 2;

  /// Creates a trail for outputs of `bytes` bytes. A step preserves any alignment that a library could benefit from.
  explicit Trail(std::size_t bytes = 0) : Trail(bytes, bytes <= 64 ? 64 : 512, max_places) {}
  Trail(std::size_t bytes, std::size_t step, std::size_t places) : bytes_(bytes), step_(step), places_(places) {}

  /// Returns a trail for in-place outputs. The places of this trail do not overlap, and there are as many places as a
  /// sample has operations (of a millisecond, or four).
  static Trail apart(std::size_t bytes) {
    const std::size_t unit = bytes <= 64 ? 64 : 512, step = (bytes + unit - 1) / unit * unit;
    constexpr std::size_t total_bytes = std::size_t{256} << 20, max_repeated_bytes = std::size_t{2} << 30;
    return {bytes, step, bytes > max_repeated_bytes ? 1 : std::clamp<std::size_t>(total_bytes / step, 4, max_places)};
  }

  std::size_t bytes() const { return bytes_; }
  /// Returns the bytes of a buffer that contains all places.
  std::size_t room() const { return (places_ - 1) * step_ + bytes_; }

  /// Starts again at the first place. If outputs overlap, it alternates between two first places, so that old data
  /// cannot be mistaken for a new output.
  void restart() {
    if (bytes_ > step_ && places_ > 1) first_ = 1 - first_;
    queued_ = staged_from_ = staged_ = 0;
  }

  /// Prepares a series of `operations` operations. The series continues after the last operation, or starts again at
  /// the first place if the operations do not fit. A device may run one more operation before them.
  void stage(std::size_t operations) {
    if (first_ + queued_ + operations + 1 > places_) restart();
    staged_from_ = queued_;
    staged_ = operations + 1;
  }

  /// Advances to the next operation and returns its place.
  std::size_t next() {
    ++queued_;
    return last();
  }
  /// Counts operations that another rank has queued.
  void pass(std::size_t operations) { queued_ += operations; }

  /// Returns the place of the last operation; the first place if there was none.
  std::size_t last() const { return index_of_last() * step_; }

  /// Returns the range of heads that must equal that of the last output: one every step from `begin`, up to the last
  /// output.
  Range earlier() const { return {first_ + queued_ > places_ ? 0 : first_ * step_, last()}; }
  /// Returns the message of a check for a missing output, counted from the begin of `earlier`.
  std::string missing(std::size_t place) const {
    return "operation " + std::to_string(place + 1) + " of the last " + std::to_string(queued_) +
           " has a different output, expected that of the last one: one was skipped, or was incomplete";
  }
  std::size_t step() const { return step_; }
  std::size_t head() const { return std::min(step_, bytes_); }

  /// Return the ranges that must be poisoned before the staged series: its heads, and the bytes after its outputs. The
  /// ranges may overlap.
  Range heads() const { return staged(0); }
  Range tails() const { return staged(bytes_); }

 private:
  std::size_t index_of_last() const { return (first_ + (queued_ > 0 ? queued_ - 1 : 0)) % places_; }
  Range staged(std::size_t offset) const {
    const auto begin = (first_ + staged_from_) * step_ + offset;
    return {std::min(begin, room()), std::min(begin + (staged_ + 1) * step_, room())};
  }

  std::size_t bytes_, step_, places_;
  std::size_t first_ = 0, queued_ = 0, staged_from_ = 0, staged_ = 0;
};

/// For a trail in host memory: prepares a number of operations and poisons their outputs.
inline void stage_trail(std::span<std::byte> whole, Trail& trail, int operations, int poison_byte) {
  trail.stage(static_cast<std::size_t>(operations));
  for (const auto& range : {trail.heads(), trail.tails()}) {
    std::memset(whole.data() + range.begin, poison_byte, range.size());
  }
}

/// For a trail in host memory: counts the operations whose heads have the same bits as the last one's, and adds the
/// result to the check.
inline void check_trail(std::span<const std::byte> whole, const Trail& trail, Check& total) {
  const auto earlier = trail.earlier();
  std::size_t missing = 0;
  for (auto at = earlier.begin; at < earlier.end; at += trail.step()) {
    ++total.compared;
    if (std::memcmp(whole.data() + at, whole.data() + trail.last(), trail.head()) == 0) continue;
    if (missing++ == 0 && total.first.empty()) total.first = trail.missing((at - earlier.begin) / trail.step());
  }
  total.mismatched += missing > 0 ? 1 : 0;
}

}  // namespace shakedown
