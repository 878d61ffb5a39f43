// Where operations in a row put their outputs, so that each of them leaves something that no other one could have
// written: the check after a series then covers all that was timed, and not only the last operation.
//
// Each output begins one step behind the one before and covers the rest of it; what stays of every operation is the
// first step of its output, its head. All operations have the same input, so that all heads must equal the head of the
// last output, which is checked as a whole. If an operation was left out, its place holds what the one before put
// there, the same data shifted by a step, or poison. Nothing is added to what is timed: only addresses differ.
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
  /// A part of a buffer, in bytes from its begin.
  struct Range {
    std::size_t begin, end;
    std::size_t size() const { return end - begin; }
  };

  /// Of more operations than places in a row, those too many would leave nothing of their own: the timing loop queues
  /// at most so many.
  static constexpr std::size_t most_places = 4096, most_operations = most_places - 2;

  /// Outputs of so many bytes. A step keeps any alignment that a library could profit from.
  explicit Trail(std::size_t bytes = 0) : Trail(bytes, bytes <= 64 ? 64 : 512, most_places) {}
  Trail(std::size_t bytes, std::size_t step, std::size_t places) : bytes_(bytes), step_(step), places_(places) {}

  /// For outputs that take the place of the input: places that do not touch each other, as many as a sample has
  /// operations (of a millisecond, or four).
  static Trail apart(std::size_t bytes) {
    const std::size_t unit = bytes <= 64 ? 64 : 512, step = (bytes + unit - 1) / unit * unit;
    constexpr std::size_t enough = std::size_t{256} << 20, alone = std::size_t{2} << 30;
    return {bytes, step, bytes > alone ? 1 : std::clamp<std::size_t>(enough / step, 4, most_places)};
  }

  std::size_t bytes() const { return bytes_; }
  /// Bytes of a buffer that has all places.
  std::size_t room() const { return (places_ - 1) * step_ + bytes_; }

  /// From the first place again. Where outputs overlap it is another one than last time, so that what lies there cannot
  /// be taken for a new output.
  void restart() {
    if (bytes_ > step_ && places_ > 1) first_ = 1 - first_;
    queued_ = staged_from_ = staged_ = 0;
  }

  /// Before a series of so many operations: it goes on behind the last one, or where that does not fit begins again.
  /// One more may come, which a device puts in front.
  void stage(std::size_t operations) {
    if (first_ + queued_ + operations + 1 > places_) restart();
    staged_from_ = queued_;
    staged_ = operations + 1;
  }

  /// The place of the next operation.
  std::size_t next() {
    ++queued_;
    return last();
  }
  /// So many operations were queued by somebody else.
  void pass(std::size_t operations) { queued_ += operations; }

  /// The place of the last operation; before any, of the first.
  std::size_t last() const { return index_of_last() * step_; }

  /// The heads that must equal that of the last output: one every step from `begin`, up to the last output.
  Range earlier() const { return {first_ + queued_ > places_ ? 0 : first_ * step_, last()}; }
  /// What a check says of the output that is missing there, counted from the begin of `earlier`.
  std::string missing(std::size_t place) const {
    return "operation " + std::to_string(place + 1) + " of the last " + std::to_string(queued_) +
           " left no output, expected the same as of the last one: it was skipped, or did only a part";
  }
  std::size_t step() const { return step_; }
  std::size_t head() const { return std::min(step_, bytes_); }

  /// What the staged series must find poisoned: its heads, and what lies behind its outputs. The ranges may overlap.
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

/// Of a trail in the host's memory: stages so many operations and poisons what they will write.
inline void stage_trail(std::span<std::byte> whole, Trail& trail, int operations, int poison_byte) {
  trail.stage(static_cast<std::size_t>(operations));
  for (const auto& range : {trail.heads(), trail.tails()}) {
    std::memset(whole.data() + range.begin, poison_byte, range.size());
  }
}

/// Of a trail in the host's memory: adds to the check how many operations left their heads, bit by bit those of the
/// last one.
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
