// The exchange of tokens of a mixture-of-experts layer. dispatch sends each token once to each rank that has one of its
// experts. combine sends one output of each of these ranks back and adds them, weighted.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/group.hpp"
#include "kernels/ops/operation.hpp"
#include "kernels/reference.hpp"

namespace shakedown {

enum class MoeOp { dispatch, combine };

constexpr auto words(MoeOp) { return names("dispatch", "combine"); }

/// Each of `ranks` ranks has `tokens` tokens of `hidden` bf16 numbers, and consecutive experts of `experts` in all. A
/// token has `top` different experts. Expert e is drawn with a weight of exp(skew u), with u uniform between 0 and 1
/// and seeded by e.
struct MoeSpec {
  static constexpr std::string_view description = "an exchange of tokens with experts";

  MoeOp op;
  int experts = 256, top = 8;
  std::size_t hidden = 7168, tokens = 4096;
  int skew = 0;
  int ranks = 1;
};

inline std::size_t token_bytes(const MoeSpec& s) { return s.hidden * size_of(DType::bf16); }

/// The experts of all tokens, from a seed, as copies of tokens between ranks. The tokens that a rank receives are
/// ordered by the rank that sends them, then by their index there.
class MoeRouting {
 public:
  static constexpr int max_ranks = 64, max_top = 9;

  /// Errors: std::invalid_argument.
  explicit MoeRouting(const MoeSpec& s) : ranks_(static_cast<std::size_t>(s.ranks)), tokens_(ranks_ * ranks_) {
    if (s.ranks < 1 || s.ranks > max_ranks || s.experts < s.ranks || s.top < 1 || s.top > max_top ||
        s.top > s.experts || s.tokens == 0 || s.hidden == 0 || s.hidden % 8 != 0) {
      throw std::invalid_argument(
          "an exchange with experts needs 1 to 64 ranks, an expert for each, 1 to 9 experts for each token, and tokens "
          "of a multiple of 8 numbers");
    }
    const auto weights = cumulative_weights(s);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      for (std::size_t token = 0; token < s.tokens; ++token) {
        for (const auto to : owners(s, weights, rank, token)) {
          tokens_[rank * ranks_ + to].push_back(static_cast<std::uint32_t>(token));
        }
      }
    }
  }

  /// Returns the tokens of rank `from` that have experts on rank `to`, in ascending order.
  const std::vector<std::uint32_t>& tokens(std::size_t from, std::size_t to) const {
    return tokens_[from * ranks_ + to];
  }
  /// Returns the place of the first token of `from` among those that `to` receives; for from = ranks, their number.
  std::size_t place(std::size_t from, std::size_t to) const {
    std::size_t place = 0;
    for (std::size_t earlier = 0; earlier < from; ++earlier) place += tokens(earlier, to).size();
    return place;
  }
  std::size_t received(std::size_t to) const { return place(ranks_, to); }
  std::size_t most_received() const {
    std::size_t most = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) most = std::max(most, received(rank));
    return most;
  }
  /// Returns the most tokens that a rank sends to others or receives from others; with one rank, those that it keeps.
  std::size_t busiest() const {
    if (ranks_ == 1) return received(0);
    std::size_t most = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      std::size_t sent = 0;
      for (std::size_t to = 0; to < ranks_; ++to) sent += to == rank ? 0 : tokens(rank, to).size();
      most = std::max({most, sent, received(rank) - tokens(rank, rank).size()});
    }
    return most;
  }

 private:
  static double uniform(std::uint64_t i) { return static_cast<double>(reference::mix(i) >> 11) * 0x1p-53; }

  static std::vector<double> cumulative_weights(const MoeSpec& s) {
    std::vector<double> sums;
    double sum = 0;
    for (int expert = 0; expert < s.experts; ++expert) {
      sums.push_back(sum += std::exp(s.skew * uniform(static_cast<std::uint64_t>(expert))));
    }
    return sums;
  }

  /// Returns the ranks that have experts of the token, in ascending order, each once.
  std::vector<std::size_t> owners(const MoeSpec& s, const std::vector<double>& weights, std::size_t rank,
                                  std::size_t token) const {
    std::vector<std::size_t> experts, ranks;
    for (std::uint64_t draw = 0; experts.size() < static_cast<std::size_t>(s.top); ++draw) {
      const double at = uniform(~(rank << 56 ^ static_cast<std::uint64_t>(token) << 24 ^ draw)) * weights.back();
      const auto found = std::upper_bound(weights.begin(), weights.end() - 1, at) - weights.begin();
      const auto expert = static_cast<std::size_t>(found);
      if (std::find(experts.begin(), experts.end(), expert) != experts.end()) continue;
      experts.push_back(expert);
      ranks.push_back(expert * ranks_ / static_cast<std::size_t>(s.experts));
    }
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    return ranks;
  }

  std::size_t ranks_;
  std::vector<std::vector<std::uint32_t>> tokens_;  // by sender and receiver
};

/// Exchanges the numbers of tokens that the ranks send to each other. Collective. Errors: std::logic_error if a rank
/// has another routing, because tokens would then overwrite each other.
inline void compare_routing(Group& group, const MoeRouting& routing) {
  const auto ranks = static_cast<std::size_t>(group.size());
  const auto counts = [&](std::size_t from) {
    std::ostringstream text;
    for (std::size_t to = 0; to < ranks; ++to) text << routing.tokens(from, to).size() << ' ';
    return text.str();
  };
  const auto all = group.gather(counts(static_cast<std::size_t>(group.rank())));
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (all[rank] != counts(rank)) throw std::logic_error("moe: rank " + std::to_string(rank) + " has another routing");
  }
}

/// The numbers of combine. All are small integers, so that their weighted sum is exact in bf16 in any order: at most 9
/// outputs of at most 7, with weights of at most 4, which is 252 (bf16 has all integers up to 256).
struct MoeNumbers {
  std::uint64_t tokens, hidden;

  /// Returns number i of the output that rank `at` has for a token of rank `of`.
  constexpr unsigned output(std::uint64_t of, std::uint64_t at, std::uint64_t token, std::uint64_t i) const {
    return static_cast<unsigned>(reference::mix(pair(of, at, token) * hidden + i) & 7);
  }
  constexpr unsigned weight(std::uint64_t of, std::uint64_t at, std::uint64_t token) const {
    return 1 + static_cast<unsigned>(reference::mix(~pair(of, at, token)) & 3);
  }
  /// Returns the bits of an integer up to 256 as bf16.
  static constexpr std::uint16_t bits(unsigned integer) {
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(integer)) >> 16);
  }

 private:
  constexpr std::uint64_t pair(std::uint64_t of, std::uint64_t at, std::uint64_t token) const {
    return (of * MoeRouting::max_ranks + at) * tokens + token;
  }
};

/// Returns the key, such as moe/op:dispatch/experts:256/top:8/hidden:7168/tokens:4096/skew:0.
inline std::string key(const MoeSpec& s) {
  Key key("moe");
  key.set("op", s.op).set("experts", s.experts).set("top", s.top).set("hidden", s.hidden).set("tokens", s.tokens);
  return key.set("skew", s.skew).text();
}
/// Returns the bytes that the busiest rank sends to others or receives from others.
inline Cost cost(const MoeSpec& s) { return {0, static_cast<double>(MoeRouting(s).busiest() * token_bytes(s))}; }
inline std::size_t footprint(const MoeSpec& s) { return (MoeRouting(s).most_received() + s.tokens) * token_bytes(s); }

}  // namespace shakedown
