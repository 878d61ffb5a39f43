// An exchange in which each pair of ranks has a part of its own length, as the tokens that a mixture-of-experts layer
// sends to the ranks of their experts.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "kernels/ops/operation.hpp"
#include "kernels/reference.hpp"

namespace shakedown {

/// Each rank sends `bytes` in all. The parts are proportional to exp(skew u), with u uniform between 0 and 1 and seeded
/// by the pair of ranks, so that the largest part of a sender is at most exp(skew) times its smallest one.
struct ExchangeSpec {
  static constexpr std::string_view description = "an exchange of unequal parts";

  std::size_t bytes;
  int ranks = 1;
  int skew = 0;
};

/// The lengths in bytes of the parts between all ranks. Parts are whole vectors of 16 bytes, except that the last part
/// of a sender has what is left; a part may be empty.
class ExchangeParts {
 public:
  explicit ExchangeParts(const ExchangeSpec& s) : ranks_(static_cast<std::size_t>(s.ranks)) {
    constexpr std::size_t vector = 16;
    if (s.ranks < 1 || s.bytes == 0 || s.bytes % sizeof(std::uint32_t) != 0) {
      throw std::invalid_argument("an exchange needs at least one rank and a positive multiple of 4 bytes");
    }
    for (std::size_t from = 0; from < ranks_; ++from) {
      std::vector<double> weights;
      for (std::size_t to = 0; to < ranks_; ++to) weights.push_back(weight(s.skew, from, to));
      const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
      std::size_t left = s.bytes;
      for (std::size_t to = 0; to < ranks_; ++to) {
        const auto share = static_cast<std::size_t>(static_cast<double>(s.bytes) * weights[to] / all);
        parts_.push_back(to + 1 == ranks_ ? left : std::min(left, share / vector * vector));
        left -= parts_.back();
      }
    }
    sent_at_.resize(ranks_ * (ranks_ + 1));
    received_at_.resize(ranks_ * (ranks_ + 1));
    for (std::size_t one = 0; one < ranks_; ++one) {
      for (std::size_t other = 0; other < ranks_; ++other) {
        sent_at_[one * (ranks_ + 1) + other + 1] = sent_at_[one * (ranks_ + 1) + other] + of(one, other);
        received_at_[one * (ranks_ + 1) + other + 1] = received_at_[one * (ranks_ + 1) + other] + of(other, one);
      }
    }
  }

  std::size_t of(std::size_t from, std::size_t to) const { return parts_[from * ranks_ + to]; }
  /// Returns where the part for a rank begins in the sender's buffer; for to = ranks, all bytes that it sends.
  std::size_t sent_at(std::size_t from, std::size_t to) const { return sent_at_[from * (ranks_ + 1) + to]; }
  /// Returns where the part of a rank begins in the receiver's buffer.
  std::size_t received_at(std::size_t from, std::size_t to) const { return received_at_[to * (ranks_ + 1) + from]; }
  std::size_t received(std::size_t to) const { return received_at(ranks_, to); }
  /// Returns the most bytes that any rank sends to others or receives from others.
  std::size_t busiest() const {
    std::size_t most = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const std::size_t sent = sent_at(rank, ranks_);
      most = std::max({most, sent - of(rank, rank), received(rank) - of(rank, rank)});
    }
    return most;
  }
  /// Returns the size of the largest receive buffer.
  std::size_t largest_received() const {
    std::size_t most = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) most = std::max(most, received(rank));
    return most;
  }

 private:
  static double weight(int skew, std::size_t from, std::size_t to) {
    const double uniform = static_cast<double>(reference::mix((from << 32) ^ to) >> 11) * 0x1p-53;
    return std::exp(skew * uniform);
  }

  std::size_t ranks_;
  std::vector<std::size_t> parts_, sent_at_, received_at_;
};

/// Returns the key, such as collectives/op:alltoallv/skew:2/dtype:f32/bytes:1073741824.
inline std::string key(const ExchangeSpec& s) {
  Key key("collectives");
  key.set("op", "alltoallv").set("skew", s.skew).set("dtype", DType::f32).set("bytes", s.bytes);
  return key.text();
}
inline Cost cost(const ExchangeSpec& s) { return {0, static_cast<double>(s.bytes)}; }
inline std::size_t footprint(const ExchangeSpec& s) { return s.bytes + ExchangeParts(s).largest_received(); }

/// Returns the words of the part between two ranks, which depend on their place in the sender's buffer.
inline reference::Parts words_between(const ExchangeParts& parts, std::size_t from, std::size_t to) {
  constexpr std::size_t word = sizeof(std::uint32_t);
  return {std::max<std::uint64_t>(parts.of(from, to) / word, 1), parts.sent_at(from, to) / word, from};
}

}  // namespace shakedown
